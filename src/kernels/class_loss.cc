#include "osprey/kernels/class_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cpu/loops/class_loss_rows.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// The arguments of a loss, checked and in memory that the loops can read; calls the loops for blocks of anchors.
class Anchors {
 public:
  Anchors(const at::Tensor& logits, const ClassTargets& targets, bool with_slope)
      : result_{at::empty({logits.size(0), logits.size(1)}, logits.options()),
                with_slope ? at::empty_like(logits) : at::Tensor()},
        logits_(logits),
        rows_(targets.rows.contiguous()),
        weights_(targets.weights.contiguous()),
        row_(targets.row.contiguous()) {
    const int64_t B = logits.size(0), A = logits.size(1), C = logits.size(2);
    TORCH_CHECK(rows_.dim() == 3 && rows_.size(0) == B && rows_.size(2) == C && rows_.scalar_type() == at::kFloat,
                "expected float32 rows of targets [", B, ", R, ", C, "], got ", rows_.toString(), " ", rows_.sizes());
    const int64_t R = rows_.size(1);
    TORCH_CHECK(weights_.scalar_type() == at::kFloat && weights_.dim() == 3 && weights_.size(0) == B &&
                    weights_.size(1) == R && (weights_.size(2) == 1 || weights_.size(2) == C),
                "expected float32 weights [", B, ", ", R, ", 1 or ", C, "], got ", weights_.toString(), " ",
                weights_.sizes());
    TORCH_CHECK(row_.scalar_type() == at::kLong && row_.sizes() == at::IntArrayRef({B, A}),
                "expected an int64 row of each anchor, [", B, ", ", A, "], got ", row_.toString(), " ", row_.sizes());
    const int64_t* row = row_.const_data_ptr<int64_t>();
    TORCH_CHECK(std::all_of(row, row + row_.numel(), [&](int64_t r) { return r >= 0 && r < R; }),
                "a row of targets lies outside [0, ", R, ")");
  }

  /// work(targets, logits, number of anchors, sums, slopes)
  template <class Work>
  LossAndSlope run(Work work) const {
    const int64_t B = logits_.size(0), A = logits_.size(1), C = logits_.size(2), R = rows_.size(1),
                  width = weights_.size(2);
    const float *logits = logits_.const_data_ptr<float>(), *rows = rows_.const_data_ptr<float>(),
                *weights = weights_.const_data_ptr<float>();
    const int64_t* row = row_.const_data_ptr<int64_t>();
    float *const sums = result_.loss.mutable_data_ptr<float>(), *const slopes =
                                                                    result_.slope.defined()
                                                                        ? result_.slope.mutable_data_ptr<float>()
                                                                        : nullptr;
    const int64_t block = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, C)), blocks = (A + block - 1) / block;
    parallel_for(B * blocks, [&](int64_t number) {
      const int64_t image = number / blocks, start = number % blocks * block;
      const int64_t first = image * A + start, count = std::min(block, A - start);
      work(cpu::TargetRows{rows + image * R * C, weights + image * R * width, width > 1, row + first},
           logits + first * C, count, sums + first, slopes != nullptr ? slopes + first * C : nullptr);
    });
    return result_;
  }

 private:
  LossAndSlope result_;
  at::Tensor logits_, rows_, weights_, row_;
};

Anchors checked(const at::Tensor& logits, const ClassTargets& targets, bool with_slope) {
  TORCH_CHECK(fuses_class_loss(logits), "expected contiguous float32 logits [B, A, C] on the CPU, got ",
              logits.toString(), " ", logits.sizes());
  return {logits, targets, with_slope};
}

}  // namespace

bool fuses_class_loss(const at::Tensor& logits) {
  return logits.is_cpu() && logits.dim() == 3 && logits.scalar_type() == at::kFloat && logits.is_contiguous();
}

LossAndSlope sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets, const SigmoidFocalOptions& options,
                           bool with_slope) {
  at::NoGradGuard no_grad;
  const cpu::FocalForm form{static_cast<float>(options.gamma), static_cast<float>(options.alpha.value_or(1)),
                            static_cast<float>(options.alpha ? 1 - *options.alpha : 1)};
  return checked(logits, targets, with_slope)
      .run([&](const cpu::TargetRows& rows, const float* x, int64_t count, float* sums, float* slopes) {
        cpu::sigmoid_focal_rows(x, rows, count, logits.size(2), form, sums, slopes);
      });
}

LossAndSlope softmax_cross_entropy(const at::Tensor& logits, const ClassTargets& targets, double logit_scale,
                                   bool with_slope) {
  at::NoGradGuard no_grad;
  const ClassTargets by_anchor{targets.rows, targets.weights.mean(-1, /*keepdim=*/true), targets.row};
  return checked(logits, by_anchor, with_slope)
      .run([&](const cpu::TargetRows& rows, const float* x, int64_t count, float* sums, float* slopes) {
        cpu::softmax_rows(x, rows, count, logits.size(2), static_cast<float>(1 / logit_scale), sums, slopes);
      });
}

}  // namespace osprey::kernels
