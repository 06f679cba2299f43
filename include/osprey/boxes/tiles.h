#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "osprey/core/box.h"
#include "osprey/core/detections.h"

namespace osprey::boxes {

/// How a picture is taken in parts, in training and later, so that what is small in it does not vanish in the resize to
/// the model's input.
struct TileOptions {
  int64_t side_px = 0;   ///< of a tile, >= 1; no larger than the picture in either direction
  double overlap = 0.2;  ///< share of a tile that its neighbour sees, too, in [0, 0.9]: more than the largest of the
                         ///< small objects, or none sees it whole
  bool whole_picture = true;  ///< the picture is taken as a whole, too, for what is larger than the overlap
};

/// The tiles of a picture, row by row, in pixels: all of one size, evenly spread, the outer ones flush with its sides.
/// throws  c10::Error for options out of range or a picture without pixels; DataError for more than 100,000 tiles
std::vector<Box> tiles_px(int64_t height, int64_t width, const TileOptions& options);

/// What was found in one part of a picture.
struct TileView {
  Box place;                     ///< of the part, as fractions of the picture
  std::vector<Detection> found;  ///< boxes as fractions of the part
};

/// One list for the picture, best first, boxes as fractions of it. A box that a tile's side cuts gives way to a whole
/// one of another view that covers half of it, whatever its class: a part looks like other things. Else the one with
/// the lower score gives way to one of its class, of another view, where half of the smaller box is common to both.
/// Within a view nothing gives way: the model has seen to that.
///
/// source  Akyon et al., "Slicing Aided Hyper Inference and Fine-tuning for Small Object Detection", ICIP 2022, for tiles
///         and the intersection over the smaller box
std::vector<Detection> merge_views(const std::vector<TileView>& views);

/// Finds what is on each of several pictures, [H, W, 3] uint8.
using Find = std::function<std::vector<std::vector<Detection>>(const std::vector<at::Tensor>& pictures)>;

/// What `find` finds on a picture when it is shown its tiles, row by row, and at last, where that is asked for and
/// there are several, the whole: as `merge_views` lists it. The parts share the picture's memory.
/// image   [H, W, 3] uint8
/// throws  as `tiles_px` and `find`
std::vector<Detection> detect_in_tiles(const at::Tensor& image, const TileOptions& options, const Find& find);

}  // namespace osprey::boxes
