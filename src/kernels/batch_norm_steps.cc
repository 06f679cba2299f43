#include "kernels/batch_norm_steps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/batch_norm.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// A map as rows of channels, in blocks that do not depend on the number of threads.
struct Rows {
  explicit Rows(const at::Tensor& x)
      : depth(x.size(1)),
        count(x.numel() / x.size(1)),
        blocks(std::clamp<int64_t>(count * depth / 32768, 1, 64)),
        per_block((count + blocks - 1) / blocks) {}
  int64_t depth, count, blocks, per_block;

  template <class Work>  // work(block, first row, number of rows)
  void for_each_block(Work work) const {
    parallel_for(blocks, [&](int64_t block) {
      const int64_t first = std::min(count, block * per_block), last = std::min(count, first + per_block);
      work(block, first, last - first);
    });
  }
};

/// Two sums per channel, gathered by blocks and then in their order: [2, C] float64.
template <class Work>  // work(first row, number of rows, scratch, sum, other)
at::Tensor sums(const Rows& rows, Work work) {
  cpu::TaskSums parts(rows.blocks, rows.depth);
  rows.for_each_block([&](int64_t block, int64_t first, int64_t number) {
    std::vector<float> scratch(static_cast<size_t>(2 * rows.depth));
    const auto [sum, other] = parts.begin(block);
    work(first, number, scratch.data(), sum, other);
  });
  return parts.total();
}

/// The same by a kernel for devices.
template <class Element>
at::Tensor sums_on_device(const at::Tensor& x, const Element& element) {
  const int64_t depth = x.size(1), rows = x.numel() / depth;
  const auto options = x.options().dtype(at::kDouble);
  const int64_t row_blocks = device::ColumnSums<Element>::row_blocks_for(rows, depth);
  const at::Tensor parts = at::empty({row_blocks, 2, depth}, options), result = at::empty({2, depth}, options);
  const device::ColumnSums<Element> sum{element, rows, depth, row_blocks, parts.mutable_data_ptr<double>()};
  device::launch(x, sum.blocks(), sum);
  device::for_each(
      x, 2 * depth,
      device::AddParts{parts.const_data_ptr<double>(), row_blocks, 2 * depth, result.mutable_data_ptr<double>()});
  return result;
}

at::Tensor or_value(const at::Tensor& values, const at::Tensor& x, double otherwise) {
  if (!values.defined()) return at::full({x.size(1)}, otherwise, x.options().dtype(at::kFloat));
  TORCH_CHECK(values.scalar_type() == at::kFloat && values.numel() == x.size(1), "expected ", x.size(1),
              " floats, one per channel");
  return values.contiguous();
}

}  // namespace

void check_normalizable(const at::Tensor& x) {
  TORCH_CHECK(fuses_batch_norm(x), "expected a channels_last map of float32 or half the bits, got ", x.toString(), " ",
              x.sizes());
  TORCH_CHECK(x.size(0) > 0 && x.size(1) > 0 && x.size(2) > 0 && x.size(3) > 0, "batch norm of an empty map ",
              x.sizes());
}

Epilogue epilogue_of(double low, double high, int64_t curve) {
  TORCH_CHECK(curve >= 0 && curve <= 2, "curve must be 0 (clamp), 1 (swish) or 2 (hard swish), got ", curve);
  return {static_cast<float>(low), static_cast<float>(high), static_cast<Epilogue::Curve>(curve)};
}

Affine::Affine(const at::Tensor& x, const at::Tensor& gamma_or_none, const at::Tensor& beta, const at::Tensor& means,
               const at::Tensor& inverse_deviation, const Epilogue& epilogue)
    : gamma(or_value(gamma_or_none, x, 1)),
      mean(means),
      scale(gamma * inverse_deviation),
      shift(or_value(beta, x, 0)),
      channels{mean.const_data_ptr<float>(), scale.const_data_ptr<float>(), shift.const_data_ptr<float>(), epilogue} {}

at::Tensor moments(const at::Tensor& x) {
  at::Tensor result;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    const int64_t depth = x.size(1);
    const device::Moments<T> element{in, depth};
    if (!device::takes_loops(x)) {
      result = sums_on_device(x, element);
      return;
    }
    const Rows rows(x);
    std::vector<float> center(static_cast<size_t>(depth));
    for (int64_t c = 0; c < depth; ++c) center[static_cast<size_t>(c)] = element.start(c);
    result = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
      cpu::add_moments(in + first * depth, number, depth, center.data(), scratch, sum, square);
    });
    auto* const sum = result.mutable_data_ptr<double>();
    for (int64_t c = 0; c < depth; ++c) element.finish(element.start(c), rows.count, sum[c], sum[depth + c]);
  });
  return result;
}

std::pair<at::Tensor, at::Tensor> statistics(const at::Tensor& moments, double count, double epsilon) {
  const int64_t depth = moments.size(1);
  const at::Tensor mean = at::empty({depth}, moments.options().dtype(at::kFloat)),
                   inverse_deviation = at::empty_like(mean);
  const device::Statistics of_channel{
      moments.const_data_ptr<double>(),           depth, count, epsilon, mean.mutable_data_ptr<float>(),
      inverse_deviation.mutable_data_ptr<float>()};
  device::for_each(moments, depth, of_channel);
  return {mean, inverse_deviation};
}

at::Tensor normalize(const at::Tensor& x, const Affine& affine) {
  const at::Tensor result = empty_map(x.sizes(), x);
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(result);
    if (!device::takes_loops(x)) {
      const device::Normalize<T> normalize{in, x.numel(), depth, affine.channels, out};
      device::launch(x, normalize.blocks(), normalize);
      return;
    }
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      cpu::normalize_rows(in + first * depth, number, depth, affine.channels, out + first * depth);
    });
  });
  return result;
}

at::Tensor gradient_moments(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine) {
  at::Tensor result;
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    if (!device::takes_loops(x)) {
      result = sums_on_device(x, device::GradientMoments<T>{{wanted, in, depth, affine.channels}});
      return;
    }
    result = sums(Rows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      cpu::add_gradient_moments(wanted + first * depth, in + first * depth, number, depth, affine.channels, scratch,
                                sum, product);
    });
  });
  return result;
}

at::Tensor spread(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine, const at::Tensor& slope,
                  const at::Tensor& offset) {
  const at::Tensor result = empty_map(x.sizes(), x);
  const auto *slopes = slope.const_data_ptr<float>(), *offsets = offset.const_data_ptr<float>();
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    T* const out = device::data<T>(result);
    if (!device::takes_loops(x)) {
      const device::GradientOfInput<T> spread{{wanted, in, depth, affine.channels}, slopes, offsets, x.numel(), out};
      device::launch(x, spread.blocks(), spread);
      return;
    }
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * depth;
      cpu::gradient_rows(wanted + at, in + at, number, depth, affine.channels, slopes, offsets, out + at);
    });
  });
  return result;
}

}  // namespace osprey::kernels
