#pragma once
#include "kernels/arithmetic/box_code.h"
#include "kernels/arithmetic/box_loss.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// A thread per anchor and image: the code of its box, zeros where it has none.
struct EncodeMatched {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  const float* boxes;    ///< [B, M, 4]
  const int64_t* match;  ///< [B, A]
  const float* anchors;  ///< [A, 4]
  int64_t images, M, A;
  BoxScales scales;
  float* codes;  ///< [B, A, 4]

  int64_t blocks() const { return blocks_for(images * A, kThreads); }
  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      if (const int64_t i = block.index * kThreads + thread; i < images * A) of_anchor(i);
    });
  }
  OSPREY_INLINE void of_anchor(int64_t i) const {
    float* const code = codes + i * 4;
    if (match[i] >= 0) {
      encode_box(boxes + (i / A * M + match[i]) * 4, anchors + i % A * 4, scales, code);
    } else {
      for (int k = 0; k < 4; ++k) code[k] = 0;
    }
  }
};

/// A thread per anchor and image: its loss, times its weight.
template <class Form>
struct BoxLoss {
  static constexpr int kThreads = 256, kMostCodes = 32;
  using Shared = Nothing;
  Form form;
  const float *predictions, *targets;  ///< [count, size]
  const float* weights;                ///< [count]
  int64_t count;
  int size;  ///< at most kMostCodes
  float* losses;
  float* slopes;  ///< like the predictions, or null

  int64_t blocks() const { return blocks_for(count, kThreads); }
  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      if (const int64_t i = block.index * kThreads + thread; i < count) of_anchor(i);
    });
  }
  OSPREY_INLINE void of_anchor(int64_t i) const {
    float slope[kMostCodes];
    losses[i] = weights[i] * form(predictions + i * size, targets + i * size, size, slope);
    if (slopes == nullptr) return;
    for (int k = 0; k < size; ++k) slopes[i * size + k] = weights[i] * slope[k];
  }
};

}  // namespace osprey::kernels::device
