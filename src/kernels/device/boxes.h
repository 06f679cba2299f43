#pragma once
#include "kernels/arithmetic/box_code.h"
#include "kernels/arithmetic/box_loss.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// Of each anchor of each image: the code of its box, zeros where it has none.
struct EncodeMatched {
  const float* boxes;    ///< [B, M, 4]
  const int64_t* match;  ///< [B, A]
  const float* anchors;  ///< [A, 4]
  int64_t M, A;
  BoxScales scales;
  float* codes;  ///< [B, A, 4]

  OSPREY_INLINE void operator()(int64_t i) const {
    float* const code = codes + i * 4;
    if (match[i] >= 0) {
      encode_box(boxes + (i / A * M + match[i]) * 4, anchors + i % A * 4, scales, code);
    } else {
      for (int k = 0; k < 4; ++k) code[k] = 0;
    }
  }
};

/// Of each anchor of each image: its loss, times its weight.
template <class Form>
struct BoxLoss {
  static constexpr int kMostCodes = 32;
  Form form;
  const float *predictions, *targets;  ///< [B * A, size]
  const float* weights;                ///< [B * A]
  int size;                            ///< at most kMostCodes
  float* losses;
  float* slopes;  ///< like the predictions, or null

  OSPREY_INLINE void operator()(int64_t i) const {
    float slope[kMostCodes];
    losses[i] = weights[i] * form(predictions + i * size, targets + i * size, size, slope);
    if (slopes == nullptr) return;
    for (int k = 0; k < size; ++k) slopes[i * size + k] = weights[i] * slope[k];
  }
};

}  // namespace osprey::kernels::device
