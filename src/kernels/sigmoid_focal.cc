#include "osprey/kernels/sigmoid_focal.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cpu/loops/sigmoid_focal_rows.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {

bool fuses_sigmoid_focal(const at::Tensor& logits) {
  return logits.is_cpu() && logits.dim() == 3 && logits.scalar_type() == at::kFloat && logits.is_contiguous();
}

LossAndSlope sigmoid_focal(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                           const SigmoidFocalOptions& options, bool with_slope) {
  TORCH_CHECK(fuses_sigmoid_focal(logits), "expected contiguous float32 logits [B, A, C] on the CPU, got ",
              logits.toString(), " ", logits.sizes());
  const int64_t rows = logits.size(0) * logits.size(1), depth = logits.size(2);
  TORCH_CHECK(weights.dim() == 3, "expected weights [B, A, C] or [B, A, 1], got ", weights.sizes());
  const bool expanded = weights.size(2) == depth && weights.stride(2) == 0;
  const bool per_class = weights.size(2) == depth && !expanded;
  TORCH_CHECK(targets.sizes() == logits.sizes() && targets.scalar_type() == at::kFloat, "expected float32 targets ",
              logits.sizes(), ", got ", targets.toString(), " ", targets.sizes());
  TORCH_CHECK(weights.scalar_type() == at::kFloat && (per_class || expanded || weights.size(2) == 1) &&
                  weights.size(0) * weights.size(1) == rows,
              "expected float32 weights [B, A, C] or [B, A, 1], got ", weights.toString(), " ", weights.sizes());
  at::NoGradGuard no_grad;
  const at::Tensor t = targets.contiguous(), w = (expanded ? weights.narrow(2, 0, 1) : weights).contiguous();
  LossAndSlope result{at::empty({logits.size(0), logits.size(1)}, logits.options()),
                      with_slope ? at::empty_like(logits) : at::Tensor()};
  const auto alpha = options.alpha ? static_cast<float>(*options.alpha) : 0.0f;
  const cpu::FocalForm form{static_cast<float>(options.gamma), options.alpha ? alpha : 1.0f,
                            options.alpha ? 1.0f - alpha : 1.0f};
  const float *const x = logits.const_data_ptr<float>(), *const target = t.const_data_ptr<float>(),
                     *const weight = w.const_data_ptr<float>();
  float *const sums = result.loss.data_ptr<float>(), *const slopes =
                                                         with_slope ? result.slope.data_ptr<float>() : nullptr;
  const int64_t block = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, depth));
  parallel_for((rows + block - 1) / block, [&](int64_t number) {
    const int64_t first = number * block, count = std::min(block, rows - first);
    cpu::sigmoid_focal_rows(x + first * depth, target + first * depth, weight + first * (per_class ? depth : 1),
                            per_class, count, depth, form, sums + first,
                            slopes != nullptr ? slopes + first * depth : nullptr);
  });
  return result;
}

}  // namespace osprey::kernels
