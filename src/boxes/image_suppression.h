#pragma once
#include "osprey/boxes/non_max_suppression.h"

/// Suppression within one image, on a CPU.
namespace osprey::boxes {

/// One image: contiguous memory of the CPU.
struct Image {
  const float* boxes;   ///< [A, Q, 4]
  const float* scores;  ///< [C, A], class by class
  int64_t num_rows;     ///< rows that are not padding
  int64_t A, Q, C;
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
