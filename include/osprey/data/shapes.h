#pragma once
#include <cstdint>
#include <memory>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct ShapesOptions {
  int64_t num_images = 1000;
  uint64_t seed = 0;         ///< sets of different seeds share no picture
  int64_t image_size = 192;  ///< side of the square pictures, pixels
  int max_objects = 6;       ///< per picture, at least 1
};

/// Synthetic pictures: circles, rectangles and triangles on textured, cluttered backgrounds.
///
/// Objects are 1/12 to 1/2 of the picture's side, several per picture, turned, overlapping (at least 60 % of each stays
/// to be seen) and partly cut by the border. Boxes are the tight boxes of what lies in the picture, in whole pixels.
/// Picture i of a seed is always the same, whatever the number of pictures or threads.
/// throws ConfigError for options out of range
std::unique_ptr<AnnotationSource> make_shapes(const ShapesOptions& options);

}  // namespace osprey::data
