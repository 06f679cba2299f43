#pragma once
#include <cmath>

#include "kernels/arithmetic/elementary.h"
#include "kernels/arithmetic/inline.h"
#include "osprey/kernels/code_scales.h"

/// Boxes as offsets from anchors; Ren et al., "Faster R-CNN", NIPS 2015, equation 2.
namespace osprey::kernels {

/// code = [dy / ha, dx / wa, log(h / ha), log(w / wa)], each times its scale. Sizes get 1e-8 more, so that boxes
/// without area stay finite.
OSPREY_INLINE void encode_box(const float* box, const float* anchor, const CodeScales& scales, float* code) {
  constexpr float kEpsilon = 1e-8f;
  const float height = box[2] - box[0], width = box[3] - box[1];
  const float anchor_height = anchor[2] - anchor[0], anchor_width = anchor[3] - anchor[1];
  const float dy = box[0] + height / 2 - (anchor[0] + anchor_height / 2);
  const float dx = box[1] + width / 2 - (anchor[1] + anchor_width / 2);
  code[0] = quotient(dy, anchor_height + kEpsilon) * scales.y;
  code[1] = quotient(dx, anchor_width + kEpsilon) * scales.x;
  code[2] = std::log((height + kEpsilon) / (anchor_height + kEpsilon)) * scales.height;
  code[3] = std::log((width + kEpsilon) / (anchor_width + kEpsilon)) * scales.width;
}

/// The inverse. The anchor's sides get no epsilon here.
OSPREY_INLINE void decode_box(const float* code, const float* anchor, const CodeScales& scales, float* box) {
  const float anchor_height = anchor[2] - anchor[0], anchor_width = anchor[3] - anchor[1];
  const float y = quotient(code[0], scales.y) * anchor_height + (anchor[0] + anchor_height / 2);
  const float x = quotient(code[1], scales.x) * anchor_width + (anchor[1] + anchor_width / 2);
  const float half_height = std::exp(quotient(code[2], scales.height)) * anchor_height / 2;
  const float half_width = std::exp(quotient(code[3], scales.width)) * anchor_width / 2;
  box[0] = y - half_height;
  box[1] = x - half_width;
  box[2] = y + half_height;
  box[3] = x + half_width;
}

/// The derivatives of a sum by the code, from those by the box.
OSPREY_INLINE void decode_box_backward(const float* by_box, const float* code, const float* anchor,
                                       const CodeScales& scales, float* by_code) {
  const float anchor_height = anchor[2] - anchor[0], anchor_width = anchor[3] - anchor[1];
  by_code[0] = quotient((by_box[0] + by_box[2]) * anchor_height, scales.y);
  by_code[1] = quotient((by_box[1] + by_box[3]) * anchor_width, scales.x);
  by_code[2] =
      quotient((by_box[2] - by_box[0]) / 2 * std::exp(quotient(code[2], scales.height)) * anchor_height, scales.height);
  by_code[3] =
      quotient((by_box[3] - by_box[1]) / 2 * std::exp(quotient(code[3], scales.width)) * anchor_width, scales.width);
}

}  // namespace osprey::kernels
