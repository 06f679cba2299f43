#pragma once
#include <cstdint>

/// The inner loop of the sigmoid losses, compiled for several instruction sets of which the best that the machine has
/// is taken.
namespace osprey::kernels::cpu {

struct FocalForm {
  float gamma;               ///< power of 1 - p_t; 0: plain cross entropy
  float positive, negative;  ///< factor of a class whose target is 1, and of one whose target is 0
};

/// Losses of `rows` anchors, each with `depth` classes.
///
/// targets  like logits, 0..1
/// weights  `depth` per anchor where `weight_per_class`, else one
/// sums     one per anchor: its classes' losses
/// slopes   like logits: the derivative of the sums; null where nobody wants it
void sigmoid_focal_rows(const float* logits, const float* targets, const float* weights, bool weight_per_class,
                        int64_t rows, int64_t depth, const FocalForm& form, float* sums, float* slopes);

}  // namespace osprey::kernels::cpu
