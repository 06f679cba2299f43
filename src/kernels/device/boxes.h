#pragma once
#include "kernels/arithmetic/box_code.h"
#include "kernels/arithmetic/box_loss.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// The row of classes and the weight of ignored anchors, of background and of each box of each image.
struct ClassRows {
  const float *labels, *box_weights;  ///< [B, M, C], [B, M]
  int64_t M, C;
  float background, background_weight;  ///< what stands in the first column of an anchor without a box, and its weight
  float *rows, *weights;                ///< [B, M + 2, C], [B, M + 2]

  OSPREY_INLINE void operator()(int64_t i) const {
    const int64_t image = i / (M + kFirstBox), row = i % (M + kFirstBox);
    const int64_t box = image * M + row - kFirstBox;
    for (int64_t c = 0; c < C; ++c) rows[i * C + c] = row >= kFirstBox ? labels[box * C + c] : c == 0 ? background : 0;
    weights[i] = row >= kFirstBox ? box_weights[box] : row == 0 ? 0 : background_weight;
  }

  /// An anchor's row is its match plus this.
  static constexpr int64_t kFirstBox = 2;
};

/// Of each anchor of each image: its row, the code of its box and the weight of that, zeros where it has none.
struct AnchorTargets {
  const float *boxes, *box_weights;  ///< [B, M, 4], [B, M]
  const int64_t* match;              ///< [B, A]
  const float* anchors;              ///< [A, 4]
  int64_t M, A;
  CodeScales scales;
  int64_t* rows;   ///< [B, A]
  float* codes;    ///< [B, A, 4], or null
  float* weights;  ///< [B, A]

  OSPREY_INLINE void operator()(int64_t i) const {
    const int64_t own = match[i], box = i / A * M + own;
    rows[i] = own + ClassRows::kFirstBox;
    weights[i] = own >= 0 ? box_weights[box] : 0;
    if (codes == nullptr) return;
    float* const code = codes + i * 4;
    if (own >= 0) {
      encode_box(boxes + box * 4, anchors + i % A * 4, scales, code);
    } else {
      for (int k = 0; k < 4; ++k) code[k] = 0;
    }
  }
};

struct DecodeBox {
  const float *codes, *anchors;  ///< [N, A, 4], [A, 4]
  int64_t A;
  CodeScales scales;
  float* boxes;  ///< [N, A, 4]

  OSPREY_INLINE void operator()(int64_t i) const {
    decode_box(codes + i * 4, anchors + i % A * 4, scales, boxes + i * 4);
  }
};

struct DecodeBoxBackward {
  const float *by_box, *codes, *anchors;  ///< [N, A, 4], [N, A, 4], [A, 4]
  int64_t A;
  CodeScales scales;
  float* by_code;  ///< [N, A, 4]

  OSPREY_INLINE void operator()(int64_t i) const {
    decode_box_backward(by_box + i * 4, codes + i * 4, anchors + i % A * 4, scales, by_code + i * 4);
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
