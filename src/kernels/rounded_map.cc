#include "osprey/kernels/rounded_map.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/device/rounded_map.h"
#include "kernels/kept_arguments.h"
#include "kernels/map_passes.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;
using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

RoundingGrid checked_grid(const at::Tensor& range, const Optional& rounds, int64_t first) {
  TORCH_CHECK(range.scalar_type() == at::kFloat && range.sizes() == at::IntArrayRef{2},
              "expected a range of two floats, got ", range.toString(), " ", range.sizes());
  TORCH_CHECK(!rounds || (rounds->scalar_type() == at::kBool && rounds->numel() == 1),
              "expected one bool that says whether values are rounded, got ", rounds ? rounds->toString() : "none");
  TORCH_CHECK(first == 0 || first == 1, "the first number must be 0 or 1, got ", first);
  return {range.contiguous(), or_none(rounds), first};
}

device::MakeRounding maker(const RoundingGrid& grid, Rounding* rounding) {
  return {grid.range.const_data_ptr<float>(), device::data<const bool>(grid.rounds), static_cast<int>(grid.first),
          rounding};
}

/// For loops, which wait for nothing.
Rounding rounding_here(const RoundingGrid& grid) {
  Rounding rounding;
  maker(grid, &rounding)(0);
  return rounding;
}

/// For kernels: made where they run.
at::Tensor rounding_there(const RoundingGrid& grid) {
  at::Tensor result = at::empty({sizeof(Rounding)}, grid.range.options().dtype(at::kByte));
  device::for_each(grid.range, 1, maker(grid, static_cast<Rounding*>(result.mutable_data_ptr())));
  return result;
}

template <class T>
at::Tensor range_by_loops(const at::Tensor& x, const Affine& affine) {
  const MapRows rows(x);
  const T* in = device::data<const T>(x);
  std::vector<device::SeenRange> of_blocks(static_cast<size_t>(rows.blocks));
  rows.for_each_block([&](int64_t block, int64_t first, int64_t number) {
    std::vector<float> both(static_cast<size_t>(2 * rows.depth));  // zeros
    float *const least = both.data(), *const largest = least + rows.depth;
    cpu::widen_ranges(in + first * rows.depth, number, rows.depth, affine.channels, least, largest);
    of_blocks[static_cast<size_t>(block)] = {*std::min_element(least, largest),
                                             *std::max_element(largest, largest + rows.depth)};
  });
  device::SeenRange all;
  for (const device::SeenRange& one : of_blocks) {
    all.see(one.least);
    all.see(one.largest);
  }
  at::Tensor result = at::empty({2}, x.options().dtype(at::kFloat));
  result.mutable_data_ptr<float>()[0] = all.least;
  result.mutable_data_ptr<float>()[1] = all.largest;
  return result;
}

template <class T>
at::Tensor range_by_kernels(const at::Tensor& x, const Affine& affine) {
  const at::Tensor result = at::empty({2}, x.options().dtype(at::kFloat));
  const T* in = device::data<const T>(x);
  with_width<T>(x, {in}, [&](auto width) {
    using Kernel = device::RangeOfMap<T, width>;
    const device::RowShares<width> shares(x.numel() / x.size(1), x.size(1), Kernel::kMostBlocks);
    const at::Tensor parts = at::empty({shares.blocks(), 2}, result.options());
    auto* const of_parts = parts.template mutable_data_ptr<float>();
    device::launch(x, shares.blocks(),
                   Kernel{shares, in, affine.channels, device::AnyCurve{affine.channels.epilogue}, of_parts});
    device::launch(x, 1, device::RangeOfParts{of_parts, shares.blocks(), result.mutable_data_ptr<float>()});
  });
  return result;
}

at::Tensor range_operator(const at::Tensor& given, const Optional& mean, const Optional& inverse_deviation,
                          const Optional& gamma, const Optional& beta, double low, double high, int64_t curve) {
  const PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (given.is_meta()) return at::empty({2}, given.options().dtype(at::kFloat));
  const ReadMap read(map);
  const at::Tensor& x = read.x;
  const Affine& affine = *read.affine;
  at::Tensor result;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    result = device::takes_loops(x) ? range_by_loops<T>(x, affine) : range_by_kernels<T>(x, affine);
  });
  return result;
}

at::Tensor rounding_operator(const at::Tensor& given, const Optional& mean, const Optional& inverse_deviation,
                             const Optional& gamma, const Optional& beta, double low, double high, int64_t curve,
                             const at::Tensor& range, const Optional& rounds, int64_t first) {
  const PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  const RoundingGrid grid = checked_grid(range, rounds, first);
  const at::Tensor result = empty_map(given.sizes(), given);
  if (given.is_meta()) return result;
  const ReadMap read(map);
  const at::Tensor& x = read.x;
  const Affine& affine = *read.affine;
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(result);
    if (device::takes_loops(x)) {
      const Rounding rounding = rounding_here(grid);
      MapRows(x).for_each_block([&](int64_t, int64_t begin, int64_t number) {
        cpu::round_rows(in + begin * depth, number, depth, affine.channels, rounding, out + begin * depth);
      });
      return;
    }
    const at::Tensor rounding = rounding_there(grid);
    const device::CurveOfGrid by{{affine.channels.epilogue}, device::data<const Rounding>(rounding)};
    with_width<T>(x, {in, out}, [&](auto width) {
      const device::Normalize<T, width, device::CurveOfGrid> normalize{shares_of_pass<width>(x), in, /*addend=*/nullptr,
                                                                       affine.channels,          by, out};
      device::launch(x, normalize.shares.blocks(), normalize);
    });
  });
  return result;
}

/// As `take_back` of what is not rounded.
template <class T>
std::pair<at::Tensor, at::Tensor> take_back_by_loops(const at::Tensor& gradient, const at::Tensor& x,
                                                     const Affine& affine, const RoundingGrid& grid) {
  const at::Tensor of_x = empty_map(x.sizes(), x);
  const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
  T* const out = device::data<T>(of_x);
  const Rounding rounding = rounding_here(grid);
  const int64_t depth = x.size(1);
  at::Tensor moments =
      column_sums(MapRows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
        const int64_t at = first * depth;
        cpu::take_back_rounded_rows(wanted + at, in + at, number, depth, affine.channels, rounding, scratch, sum,
                                    product, out + at);
      });
  return {moments, of_x};
}

/// with_sums  false: nobody wants them, and their pass is left out
template <class T>
std::pair<at::Tensor, at::Tensor> take_back_by_kernels(const at::Tensor& gradient, const at::Tensor& x,
                                                       const Affine& affine, const RoundingGrid& grid, bool with_sums) {
  const at::Tensor of_x = empty_map(x.sizes(), x), none = at::zeros_like(affine.mean), rounding = rounding_there(grid);
  const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
  T* const out = device::data<T>(of_x);
  const device::CurveOfGrid by{{affine.channels.epilogue}, device::data<const Rounding>(rounding)};
  const auto* zeros = none.const_data_ptr<float>();
  at::Tensor moments;
  with_width<T>(x, {wanted, in, out}, [&](auto width) {
    if (with_sums)
      moments = column_sums_on_device(
          x, device::GradientMoments<T, width, device::CurveOfGrid>{wanted, in, affine.channels, by});
    const device::GradientOfInput<T, width, device::CurveOfGrid> spread{
        shares_of_pass<width>(x), wanted, in, affine.channels, by, zeros, zeros, out};
    device::launch(x, spread.shares.blocks(), spread);
  });
  return {moments, of_x};
}

FiveTensors rounding_backward_operator(const at::Tensor& gradient, const at::Tensor& given, const Optional& mean,
                                       const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                                       double low, double high, int64_t curve, const at::Tensor& range,
                                       const Optional& rounds, int64_t first) {
  TORCH_CHECK(gradient.sizes() == given.sizes(), "expected a gradient of size ", given.sizes(), ", got ",
              gradient.sizes());
  const PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  const RoundingGrid grid = checked_grid(range, rounds, first);
  const auto channels = [&] {
    return at::empty({map.mean.defined() ? given.size(1) : 0}, given.options().dtype(at::kFloat));
  };
  if (given.is_meta()) return {empty_map(given.sizes(), given), channels(), channels(), channels(), channels()};
  const ReadMap read(map);
  const at::Tensor& x = read.x;
  const Affine& affine = *read.affine;
  const at::Tensor wanted = channels_last(gradient.to(given.scalar_type()));
  std::pair<at::Tensor, at::Tensor> taken_back;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    taken_back = device::takes_loops(x) ? take_back_by_loops<T>(wanted, x, affine, grid)
                                        : take_back_by_kernels<T>(wanted, x, affine, grid, map.mean.defined());
  });
  const auto& [moments, of_x] = taken_back;
  if (!map.mean.defined()) return {of_x, channels(), channels(), channels(), channels()};
  const ChannelGradients of = gradients_of_channels(x, moments, affine, map.inverse_deviation);
  return {of_x, of.mean, of.inverse_deviation, of.gamma, of.beta};
}

class RoundedValuesNode : public torch::autograd::Function<RoundedValuesNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Optional& mean,
                            const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                            const Epilogue& epilogue, const at::Tensor& range, const Optional& rounds, int64_t first) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap map{x, or_none(mean), or_none(inverse_deviation), or_none(gamma), or_none(beta), epilogue};
    const RoundingGrid grid{range, or_none(rounds), first};
    context->save_for_backward({x, map.mean, map.inverse_deviation, map.gamma, map.beta, grid.range, grid.rounds});
    keep(context, epilogue);
    context->saved_data["first"] = first;
    return rounded_values(map, grid);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("rounded_values");
    const variable_list saved = context->get_saved_variables();
    const PendingMap map{saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)};
    const PendingGradients all =
        rounded_values_backward(gradients[0], map, {saved[5], saved[6], context->saved_data["first"].toInt()});
    const auto of = [](const at::Tensor& part, const at::Tensor& gradient) {
      return part.defined() ? gradient : at::Tensor();
    };
    return {all.x,
            of(map.mean, all.mean),
            of(map.mean, all.inverse_deviation),
            of(map.gamma, all.gamma),
            of(map.beta, all.beta),
            {},
            {},
            {},
            {}};
  }
};

at::Tensor differentiable_rounding(const at::Tensor& x, const Optional& mean, const Optional& inverse_deviation,
                                   const Optional& gamma, const Optional& beta, double low, double high, int64_t curve,
                                   const at::Tensor& range, const Optional& rounds, int64_t first) {
  return RoundedValuesNode::apply(x, mean, inverse_deviation, gamma, beta, epilogue_of(low, high, curve), range, rounds,
                                  first);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  const std::string map =
      "Tensor x, Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? beta, float low, float high, int "
      "curve";
  define(library, "value_range(" + map + ") -> Tensor", &range_operator);
  define(library, "rounded_values(" + map + ", Tensor range, Tensor? rounds, int first) -> Tensor", &rounding_operator,
         &differentiable_rounding);
  define(library,
         "rounded_values_backward(Tensor gradient, " + map +
             ", Tensor range, Tensor? rounds, int first) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
         &rounding_backward_operator);
}

}  // namespace

at::Tensor value_range(const PendingMap& input) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("value_range", &range_operator);
  return operation.call(input.x, if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
                        if_defined(input.beta), input.epilogue.low, input.epilogue.high,
                        static_cast<int64_t>(input.epilogue.curve));
}

at::Tensor rounded_values(const PendingMap& input, const RoundingGrid& grid) {
  static const auto operation = find_operator("rounded_values", &rounding_operator);
  return operation.call(input.x, if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
                        if_defined(input.beta), input.epilogue.low, input.epilogue.high,
                        static_cast<int64_t>(input.epilogue.curve), grid.range, if_defined(grid.rounds), grid.first);
}

PendingGradients rounded_values_backward(const at::Tensor& gradient, const PendingMap& input,
                                         const RoundingGrid& grid) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("rounded_values_backward", &rounding_backward_operator);
  const auto [x, mean, inverse_deviation, gamma, beta] =
      operation.call(gradient, input.x, if_defined(input.mean), if_defined(input.inverse_deviation),
                     if_defined(input.gamma), if_defined(input.beta), input.epilogue.low, input.epilogue.high,
                     static_cast<int64_t>(input.epilogue.curve), grid.range, if_defined(grid.rounds), grid.first);
  if (!input.mean.defined()) return {.x = x};
  return {x, mean, inverse_deviation, gamma, beta};
}

}  // namespace osprey::kernels
