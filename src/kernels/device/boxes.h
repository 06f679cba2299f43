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
    const auto [image, row] = Split(i, M + kFirstBox);
    const int64_t box = image * M + row - kFirstBox;
    for (int64_t c = 0; c < C; ++c) rows[i * C + c] = row >= kFirstBox ? labels[box * C + c] : c == 0 ? background : 0;
    weights[i] = row >= kFirstBox ? box_weights[box] : row == 0 ? 0 : background_weight;
  }

  /// An anchor's row is its match plus this.
  static constexpr int64_t kFirstBox = 2;
};

/// The code of the box of each anchor of each image, zeros where it has none.
struct MatchedCodes {
  const float* boxes;    ///< [B, M, 4]
  const int64_t* match;  ///< [B, A]
  const float* anchors;  ///< [A, 4]
  int64_t M, A;
  CodeScales scales;

  OSPREY_INLINE int64_t box_of(int64_t i) const { return match[i] >= 0 ? Split(i, A).quotient * M + match[i] : -1; }
  OSPREY_INLINE void write(int64_t i, int, float* code) const {
    const int64_t box = box_of(i);
    if (box >= 0) {
      encode_box(boxes + box * 4, anchors + Split(i, A).rest * 4, scales, code);
    } else {
      for (int k = 0; k < 4; ++k) code[k] = 0;
    }
  }
};

/// Of each anchor of each image: its row, the code of its box and the weight of that.
struct AnchorTargets {
  MatchedCodes matched;
  const float* box_weights;  ///< [B, M]
  int64_t* rows;             ///< [B, A]
  float* codes;              ///< [B, A, 4], or null
  float* weights;            ///< [B, A]

  OSPREY_INLINE void operator()(int64_t i) const {
    const int64_t box = matched.box_of(i);
    rows[i] = matched.match[i] + ClassRows::kFirstBox;
    weights[i] = box >= 0 ? box_weights[box] : 0;
    if (codes != nullptr) matched.write(i, 4, codes + i * 4);
  }
};

struct DecodeBox {
  const float *codes, *anchors;  ///< [N, A, 4], [A, 4]
  int64_t A;
  CodeScales scales;
  float* boxes;  ///< [N, A, 4]

  OSPREY_INLINE void operator()(int64_t i) const {
    decode_box(codes + i * 4, anchors + Split(i, A).rest * 4, scales, boxes + i * 4);
  }
};

struct DecodeBoxBackward {
  const float *by_box, *codes, *anchors;  ///< [N, A, 4], [N, A, 4], [A, 4]
  int64_t A;
  CodeScales scales;
  float* by_code;  ///< [N, A, 4]

  OSPREY_INLINE void operator()(int64_t i) const {
    decode_box_backward(by_box + i * 4, codes + i * 4, anchors + Split(i, A).rest * 4, scales, by_code + i * 4);
  }
};

/// Codes, or boxes, that are there for each anchor of each image.
struct WrittenCodes {
  const float* values;  ///< [B * A, size]
  OSPREY_INLINE void write(int64_t i, int size, float* code) const {
    for (int k = 0; k < size; ++k) code[k] = values[i * size + k];
  }
};

constexpr int kMostCodes = 32;  ///< of an anchor

/// Of each anchor of each image: its loss, times its weight. A target that is not a number stands for the prediction.
template <class Form, class Codes>
struct BoxLoss {
  Form form;
  Codes targets;
  const float* predictions;  ///< [B * A, size]
  const float* weights;      ///< [B * A]
  int size;                  ///< at most kMostCodes
  float* losses;
  float* slopes;  ///< like the predictions, or null

  OSPREY_INLINE void operator()(int64_t i) const {
    // Nearly all codes are of four values, which then stay in registers.
    if (size == 4) {
      compare<4>(i, 4);
    } else {
      compare<kMostCodes>(i, size);
    }
  }

 private:
  template <int kRoom>
  OSPREY_INLINE void compare(int64_t i, int count) const {
    const float* const own = predictions + i * count;
    float target[kRoom], slope[kRoom];
    targets.write(i, count, target);
    for (int k = 0; k < count; ++k) target[k] = target[k] == target[k] ? target[k] : own[k];
    losses[i] = weights[i] * form(own, target, count, slope);
    if (slopes == nullptr) return;
    for (int k = 0; k < count; ++k) slopes[i * count + k] = weights[i] * slope[k];
  }
};

}  // namespace osprey::kernels::device
