#pragma once
#include <cmath>

#include "kernels/arithmetic/inline.h"

/// Boxes as offsets from anchors; Ren et al., "Faster R-CNN", NIPS 2015, equation 2.
namespace osprey::kernels {

/// What the codes of y, x, height and width are multiplied by.
struct BoxScales {
  float y, x, height, width;
};

/// code = [dy / ha, dx / wa, log(h / ha), log(w / wa)], each times its scale. Sizes get 1e-8 more, so that boxes
/// without area stay finite.
OSPREY_INLINE void encode_box(const float* box, const float* anchor, const BoxScales& scales, float* code) {
  constexpr float kEpsilon = 1e-8f;
  const float height = box[2] - box[0], width = box[3] - box[1];
  const float anchor_height = anchor[2] - anchor[0], anchor_width = anchor[3] - anchor[1];
  const float dy = box[0] + height / 2 - (anchor[0] + anchor_height / 2);
  const float dx = box[1] + width / 2 - (anchor[1] + anchor_width / 2);
  code[0] = dy / (anchor_height + kEpsilon) * scales.y;
  code[1] = dx / (anchor_width + kEpsilon) * scales.x;
  code[2] = std::log((height + kEpsilon) / (anchor_height + kEpsilon)) * scales.height;
  code[3] = std::log((width + kEpsilon) / (anchor_width + kEpsilon)) * scales.width;
}

}  // namespace osprey::kernels
