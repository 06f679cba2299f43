#include "osprey/kernels/class_loss.h"

#include <ATen/ATen.h>

#include "kernels/check_range.h"
#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/class_loss_rows.h"
#include "kernels/device/class_loss.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "kernels/with_slope.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// The arguments of a loss, checked and in one block each, with room for the result.
struct Arguments {
  Arguments(const at::Tensor& logits, const at::Tensor& target_rows, const at::Tensor& weight_rows,
            const at::Tensor& row_of_anchors, bool with_slope)
      : x(logits), rows(target_rows.contiguous()), weights(weight_rows.contiguous()), row(row_of_anchors.contiguous()) {
    TORCH_CHECK(takes_class_loss(logits), "expected contiguous logits [B, A, C] of float32, bfloat16 or float16, got ",
                logits.toString(), " ", logits.sizes());
    B = logits.size(0), A = logits.size(1), C = logits.size(2);
    TORCH_CHECK(rows.dim() == 3 && rows.size(0) == B && rows.size(2) == C && rows.scalar_type() == at::kFloat,
                "expected float32 rows of targets [", B, ", R, ", C, "], got ", rows.toString(), " ", rows.sizes());
    R = rows.size(1);
    TORCH_CHECK(weights.scalar_type() == at::kFloat && weights.dim() == 3 && weights.size(0) == B &&
                    weights.size(1) == R && (weights.size(2) == 1 || weights.size(2) == C),
                "expected float32 weights [", B, ", ", R, ", 1 or ", C, "], got ", weights.toString(), " ",
                weights.sizes());
    TORCH_CHECK(row.scalar_type() == at::kLong && row.sizes() == at::IntArrayRef({B, A}),
                "expected an int64 row of each anchor, [", B, ", ", A, "], got ", row.toString(), " ", row.sizes());
    check_range(row, 0, R, "a row of targets");
    const auto sums = logits.options().dtype(at::kFloat);
    loss = C > 0 ? at::empty({B, A}, sums) : at::zeros({B, A}, sums);
    const auto slopes = logits.options().dtype(logits.scalar_type() == at::kHalf ? at::kFloat : logits.scalar_type());
    slope = with_slope ? at::empty_like(logits, slopes) : at::empty({0}, slopes);
  }

  bool with_slope() const { return slope.dim() == 3; }

  /// The loops for CPUs, which compute with floats; calls work(targets, logits, number of anchors, sums, slopes) for
  /// blocks of anchors.
  template <class Work>
  LossAndSlopeTensors run_loops(Work work) const {
    with_elements(x.scalar_type(), [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      using Slope = device::SlopeOf<T>;
      const T* const logits = device::data<const T>(x);
      Slope* const slopes = with_slope() ? device::data<Slope>(slope) : nullptr;
      const auto *const targets = rows.const_data_ptr<float>(), *const weight = weights.const_data_ptr<float>();
      const int64_t* const first_row = row.const_data_ptr<int64_t>();
      float* const sums = loss.mutable_data_ptr<float>();
      constexpr int64_t kFloatsOfABlock = 16384;
      const int64_t width = weights.size(2), block = std::max<int64_t>(1, kFloatsOfABlock / std::max<int64_t>(1, C)),
                    blocks = (A + block - 1) / block;
      parallel_for(B * blocks, [&](int64_t number) {
        const int64_t image = number / blocks, start = number % blocks * block;
        const int64_t first = image * A + start, count = std::min(block, A - start);
        const auto space = cpu::scratch(std::is_same_v<T, float> ? 0 : count * C);
        const cpu::Drafts<Slope> drafts(slopes != nullptr ? count * C : 0);
        work(cpu::TargetRows{targets + image * R * C, weight + image * R * width, width > 1, first_row + first},
             cpu::floats_of(logits + first * C, count * C, space.get()), count, sums + first,
             slopes != nullptr ? drafts.of(slopes + first * C) : nullptr);
        if (slopes != nullptr) drafts.write(count * C, slopes + first * C);
      });
    });
    return {loss, slope};
  }

  /// The kernel for a device. make(arguments, how classes are shared) -> kernel
  template <class Make>
  LossAndSlopeTensors run_kernel(Make make) const {
    if (C == 0) return {loss, slope};
    with_elements(x.scalar_type(), [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const device::ClassLossArguments<T> of{device::data<const T>(x),
                                             rows.const_data_ptr<float>(),
                                             weights.const_data_ptr<float>(),
                                             weights.size(2) > 1,
                                             row.const_data_ptr<int64_t>(),
                                             A,
                                             C,
                                             R,
                                             B * A,
                                             loss.mutable_data_ptr<float>(),
                                             with_slope() ? device::data<device::SlopeOf<T>>(slope) : nullptr};
      const auto run = [&](auto shares) {
        device::launch(x, device::blocks_for(of.anchors, shares.kAnchors), make(of, shares));
      };
      if (C < device::kFewClasses) {
        run(device::FewClasses{});
      } else if (C % 2 == 0 && device::begins_at_multiple(of.logits, 2 * sizeof(T)) &&
                 device::begins_at_multiple(of.targets, 2 * sizeof(float)) &&
                 device::begins_at_multiple(of.weights, 2 * sizeof(float))) {
        run(device::PairsOfClasses{});
      } else {
        run(device::SingleClasses{});
      }
    });
    return {loss, slope};
  }

  at::Tensor x, rows, weights, row, loss, slope;
  int64_t B, A, C, R;
};

LossAndSlopeTensors focal(const at::Tensor& logits, const at::Tensor& target_rows, const at::Tensor& weight_rows,
                          const at::Tensor& row, double gamma, std::optional<double> alpha, bool with_slope) {
  const Arguments arguments(logits, target_rows, weight_rows, row, with_slope);
  if (logits.is_meta()) return {arguments.loss, arguments.slope};
  const FocalForm form{static_cast<float>(gamma), static_cast<float>(alpha.value_or(1)),
                       static_cast<float>(alpha ? 1 - *alpha : 1)};
  if (!device::takes_loops(logits))
    return arguments.run_kernel([&](const auto& of, auto shares) {
      return device::SigmoidFocal<typename std::decay_t<decltype(of)>::Logit, decltype(shares)>{of, form};
    });
  return arguments.run_loops(
      [&](const cpu::TargetRows& rows, const float* x, int64_t count, float* sums, float* slopes) {
        cpu::sigmoid_focal_rows(x, rows, count, arguments.C, form, sums, slopes);
      });
}

LossAndSlopeTensors softmax(const at::Tensor& logits, const at::Tensor& target_rows, const at::Tensor& weight_rows,
                            const at::Tensor& row, double logit_scale, bool with_slope) {
  TORCH_CHECK(logits.dim() != 3 || logits.size(2) > 0, "softmax of no classes: logits ", logits.sizes());
  TORCH_CHECK(weight_rows.dim() == 3, "expected float32 weights [B, R, 1 or C], got ", weight_rows.sizes());
  const at::Tensor by_anchor = weight_rows.size(2) == 1 ? weight_rows : weight_rows.mean(-1, /*keepdim=*/true);
  const Arguments arguments(logits, target_rows, by_anchor, row, with_slope);
  if (logits.is_meta()) return {arguments.loss, arguments.slope};
  const auto inverse_scale = static_cast<float>(1 / logit_scale);
  if (!device::takes_loops(logits))
    return arguments.run_kernel([&](const auto& of, auto shares) {
      return device::SoftmaxCrossEntropy<typename std::decay_t<decltype(of)>::Logit, decltype(shares)>{of,
                                                                                                       inverse_scale};
    });
  return arguments.run_loops(
      [&](const cpu::TargetRows& rows, const float* x, int64_t count, float* sums, float* slopes) {
        cpu::softmax_rows(x, rows, count, arguments.C, inverse_scale, sums, slopes);
      });
}

auto focal_operator() {
  static const auto operation = find_operator("sigmoid_focal_loss", &focal);
  return operation;
}

auto softmax_operator() {
  static const auto operation = find_operator("softmax_cross_entropy_loss", &softmax);
  return operation;
}

LossAndSlopeTensors differentiable_focal(const at::Tensor& logits, const at::Tensor& target_rows,
                                         const at::Tensor& weight_rows, const at::Tensor& row, double gamma,
                                         std::optional<double> alpha, bool with_slope) {
  return differentiable_loss(logits, with_slope, [&](bool slope) {
    return focal_operator().call(logits, target_rows, weight_rows, row, gamma, alpha, slope);
  });
}

LossAndSlopeTensors differentiable_softmax(const at::Tensor& logits, const at::Tensor& target_rows,
                                           const at::Tensor& weight_rows, const at::Tensor& row, double logit_scale,
                                           bool with_slope) {
  return differentiable_loss(logits, with_slope, [&](bool slope) {
    return softmax_operator().call(logits, target_rows, weight_rows, row, logit_scale, slope);
  });
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "sigmoid_focal_loss(Tensor logits, Tensor target_rows, Tensor weight_rows, Tensor row, float gamma, "
         "float? alpha, bool with_slope) -> (Tensor, Tensor)",
         &focal, &differentiable_focal);
  define(library,
         "softmax_cross_entropy_loss(Tensor logits, Tensor target_rows, Tensor weight_rows, Tensor row, "
         "float logit_scale, bool with_slope) -> (Tensor, Tensor)",
         &softmax, &differentiable_softmax);
}

LossAndSlope named(LossAndSlopeTensors result, bool with_slope) {
  return {std::get<0>(result), with_slope ? std::get<1>(result) : at::Tensor()};
}

}  // namespace

bool takes_class_loss(const at::Tensor& logits) {
  return has_kernels(logits) && logits.dim() == 3 && logits.is_contiguous() && is_element(logits.scalar_type());
}

LossAndSlope sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets, const SigmoidFocalOptions& options,
                           bool with_slope) {
  return named(focal_operator().call(logits, targets.rows, targets.weights, targets.row, options.gamma, options.alpha,
                                     with_slope),
               with_slope);
}

LossAndSlope softmax_cross_entropy(const at::Tensor& logits, const ClassTargets& targets, double logit_scale,
                                   bool with_slope) {
  return named(softmax_operator().call(logits, targets.rows, targets.weights, targets.row, logit_scale, with_slope),
               with_slope);
}

}  // namespace osprey::kernels
