#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "osprey/config/registry.h"

namespace osprey::boxes {

/// Height and width of a feature map, in cells.
using FeatureMapShape = std::array<int64_t, 2>;

/// The reference boxes of a detector, a fixed number at every cell of every feature map.
///
/// Anchors are ordered by feature map, row, column, and anchor within the cell; they are never clipped. Build a
/// generator with `build_anchor_generator` (boxes/builder.h).
class AnchorGenerator {
 public:
  using Registry = config::Registry<AnchorGenerator>;
  virtual ~AnchorGenerator() = default;

  /// Anchors per cell, for each feature map the generator is configured for.
  virtual std::vector<int64_t> num_anchors_per_location() const = 0;

  /// All anchors, [A, 4] float32 on the CPU: fractions of the image, or pixels where the config asks for them (grid,
  /// and multiscale or flexible grid with `normalize_coordinates: false`).
  ///
  /// shapes                     finest first; as many as the generator is configured for
  /// image_height, image_width  of the network's input in pixels; 1 and 1 where not known: SSD anchors on a square
  ///                            image do not need them
  /// throws                     c10::Error when the number of feature maps differs, or when normalised anchors need a
  ///                            size that is not given
  virtual at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                              int64_t image_width) const = 0;

  /// The same for a network that takes pictures of any size, for which the original's multiscale anchors lie elsewhere.
  virtual at::Tensor generate_for_any_size(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                                           int64_t image_width) const {
    return generate(shapes, image_height, image_width);
  }
};

}  // namespace osprey::boxes
