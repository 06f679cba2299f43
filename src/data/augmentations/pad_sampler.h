#pragma once
#include <vector>

#include "osprey/core/example.h"
#include "osprey/data/image_resizer.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// Places the image at a random place of a canvas whose sides are drawn from [least, most); the image's own size is the
/// least in any case.
/// color    of the canvas, 3 values; empty: the mean colour of the image
void random_pad(Example& example, ImageSize least, ImageSize most, std::vector<float> color, RandomDraws& draws);

/// Pads at the bottom and right with zeros to the aspect ratio, by a random factor that keeps the canvas between the
/// two ratios (height, width) of the image's size where that is possible.
void random_pad_to_aspect_ratio(Example& example, float aspect_ratio, const std::vector<float>& min_ratio,
                                const std::vector<float>& max_ratio, RandomDraws& draws);

}  // namespace osprey::data
