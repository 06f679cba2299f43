#pragma once
#include <ATen/ATen.h>

namespace osprey::losses {

/// Overlap of each predicted box with its own target, [B, A], differentiable. It differs from boxes/geometry.h, which
/// compares all with all and has no gradients to agree on.
struct BoxOverlap {
  at::Tensor intersection, union_area;
  at::Tensor enclosing;  ///< area of the smallest box around both
};

namespace detail {

// On a tie the whole gradient goes to the prediction, as in TensorFlow; at::maximum would give it half.
inline at::Tensor larger(const at::Tensor& prediction, const at::Tensor& target) {
  return at::where(prediction >= target, prediction, target);
}
inline at::Tensor smaller(const at::Tensor& prediction, const at::Tensor& target) {
  return at::where(prediction <= target, prediction, target);
}

}  // namespace detail

/// boxes  both [B, A, 4], [ymin, xmin, ymax, xmax]
inline BoxOverlap box_overlap(const at::Tensor& predictions, const at::Tensor& targets) {
  TORCH_CHECK(predictions.size(2) == 4, "an overlap loss compares boxes of 4 values, got ", predictions.sizes());
  const auto p = predictions.unbind(2), t = targets.unbind(2);
  const auto area = [](const std::vector<at::Tensor>& box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  BoxOverlap overlap;
  overlap.intersection = at::relu(detail::smaller(p[2], t[2]) - detail::larger(p[0], t[0])) *
                         at::relu(detail::smaller(p[3], t[3]) - detail::larger(p[1], t[1]));
  overlap.union_area = area(p) + area(t) - overlap.intersection;
  overlap.enclosing = (detail::larger(p[2], t[2]) - detail::smaller(p[0], t[0])) *
                      (detail::larger(p[3], t[3]) - detail::smaller(p[1], t[1]));
  return overlap;
}

/// a / b, and 0 with no gradient where b is 0.
inline at::Tensor divide_or_zero(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor zero = b == 0;
  return at::where(zero, at::zeros_like(a), a / at::where(zero, at::ones_like(b), b));
}

}  // namespace osprey::losses
