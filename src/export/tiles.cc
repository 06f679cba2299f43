#include "osprey/export/tiles.h"

namespace osprey {

std::vector<Detection> detect_in_tiles(const Detector& detector, const at::Tensor& image, const TileOptions& options,
                                       double min_score) {
  return boxes::detect_in_tiles(
      image, options, [&](const std::vector<at::Tensor>& pictures) { return detector.detect(pictures, min_score); });
}

}  // namespace osprey
