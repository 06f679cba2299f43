#pragma once
#include <algorithm>

#include "boxes/best_first.h"
#include "kernels/arithmetic/box_code.h"
#include "osprey/boxes/non_max_suppression.h"

/// Suppression within one image, on a CPU.
namespace osprey::boxes {

/// The boxes of one image, or codes that are decoded whenever one of them is looked at: most never are.
struct ImageBoxes {
  const float* values;             ///< [A, Q, 4]
  int64_t Q = 1;                   ///< 1, or a box for each class
  const float* anchors = nullptr;  ///< null: the values are boxes; else [A, 4], and they are codes, with Q = 1
  kernels::CodeScales scales = {};

  void read(int64_t row, int64_t label, float* box) const {
    const float* const value = values + (row * Q + (Q == 1 ? 0 : label)) * 4;
    if (anchors != nullptr) {
      kernels::decode_box(value, anchors + row * 4, scales, box);
    } else {
      std::copy_n(value, 4, box);
    }
  }
};

/// One image: contiguous memory of the CPU.
struct Image {
  ImageBoxes boxes;
  ScoreTable scores;
};

/// Rows of the result, of one image.
struct Output {
  float *boxes, *scores;
  int64_t *classes, *indices, *count;
};

/// All steps of `batch_non_max_suppression`.
/// window  [4]
void detect_in_image(const Image& image, const float* window, const NmsOptions& options, const Output& out);

}  // namespace osprey::boxes
