#pragma once
#include <cstdint>

#include "kernels/arithmetic/focal.h"

/// The inner loops of the classification losses, compiled for several instruction sets of which the best that the
/// machine has is taken.
namespace osprey::kernels::cpu {

/// What each of some anchors is compared with.
struct TargetRows {
  const float* targets;  ///< [R, depth], 0..1
  const float* weights;  ///< [R, depth] where `weight_per_class`, else [R]
  bool weight_per_class;
  const int64_t* row;  ///< of each anchor
};

/// Losses of `anchors` anchors, each with `depth` classes.
/// sums    one per anchor: its classes' losses
/// slopes  like logits: the derivative of the sums; null where nobody wants it
void sigmoid_focal_rows(const float* logits, const TargetRows& rows, int64_t anchors, int64_t depth,
                        const FocalForm& form, float* sums, float* slopes);

/// The same for the softmax of `inverse_scale` * logits, with a weight per anchor, and TensorFlow's slopes: see
/// osprey/kernels/class_loss.h.
void softmax_rows(const float* logits, const TargetRows& rows, int64_t anchors, int64_t depth, float inverse_scale,
                  float* sums, float* slopes);

}  // namespace osprey::kernels::cpu
