#include "kernels/batch_norm_steps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/arithmetic/moments.h"
#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/batch_norm.h"
#include "kernels/device/channels.h"
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
  using Sums = device::ColumnSums<Element>;
  const int64_t depth = x.size(1);
  const auto options = x.options().dtype(at::kDouble);
  const device::RowShares<Element::kWidth> shares(x.numel() / depth, depth, Sums::kMostBlocks);
  const at::Tensor parts = at::empty({shares.row_blocks, 2, depth}, options), result = at::empty({2, depth}, options);
  device::launch(x, shares.blocks(), Sums{element, shares, parts.mutable_data_ptr<double>()});
  const device::AddParts add{parts.const_data_ptr<double>(), shares.row_blocks, 2 * depth,
                             result.mutable_data_ptr<double>()};
  device::launch(x, add.blocks(), add);
  return result;
}

/// Calls run(width) with how many neighbouring channels a kernel may read at once, of maps like x.
template <class T, class Run>
void with_width(const at::Tensor& x, std::initializer_list<const T*> maps, Run run) {
  constexpr int kWide = 16 / sizeof(T);  // what a GPU reads fastest; it insists on addresses that are multiples
  const bool wide = x.size(1) % kWide == 0 && std::ranges::all_of(maps, [](const T* map) {
                      return reinterpret_cast<uintptr_t>(map) % (kWide * sizeof(T)) == 0;
                    });
  wide ? run(std::integral_constant<int, kWide>()) : run(std::integral_constant<int, 1>());
}

/// How a pass over a map is shared by threads of a device.
template <int kWidth>
device::RowShares<kWidth> shares_of_pass(const at::Tensor& x) {
  return {x.numel() / x.size(1), x.size(1), device::kBlocksOfPass};
}

/// curve((x - mean) * scale + shift + addend) by a kernel for devices.   addend  may be null
template <class T>
void normalize_on_device(const at::Tensor& x, const Affine& affine, const T* addend, const at::Tensor& y) {
  const T* in = device::data<const T>(x);
  T* const out = device::data<T>(y);
  with_width<T>(x, {in, addend, out}, [&](auto width) {
    const device::Normalize<T, width> normalize{shares_of_pass<width>(x), in, addend, affine.channels, out};
    device::launch(x, normalize.shares.blocks(), normalize);
  });
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

void check_like(const at::Tensor& x, const at::Tensor& other, const char* name) {
  TORCH_CHECK(other.sizes() == x.sizes() && other.scalar_type() == x.scalar_type(), "expected ", name, " of ",
              x.toString(), " ", x.sizes(), ", got ", other.toString(), " ", other.sizes());
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

Affine Affine::without_epilogue() const {
  Affine result = *this;
  result.channels.epilogue = {};
  return result;
}

at::Tensor moments(const at::Tensor& x) {
  at::Tensor result;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    if (!device::takes_loops(x)) {
      with_width<T>(x, {in}, [&](auto width) { result = sums_on_device(x, device::Moments<T, width>{in}); });
      return;
    }
    const int64_t depth = x.size(1);
    const Rows rows(x);
    std::vector<float> center(static_cast<size_t>(depth));
    for (int64_t c = 0; c < depth; ++c) center[static_cast<size_t>(c)] = load(in + c);
    result = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
      cpu::add_moments(in + first * depth, number, depth, depth, center.data(), scratch, sum, square);
    });
    auto* const sum = result.mutable_data_ptr<double>();
    for (int64_t c = 0; c < depth; ++c)
      moments_from(center[static_cast<size_t>(c)], rows.count, sum[c], sum[depth + c]);
  });
  return result;
}

at::Tensor place_sums(const at::Tensor& x) {
  if (x.numel() == 0 || !device::takes_loops(x)) return x.sum(at::IntArrayRef{0, 2, 3}, /*keepdim=*/false, at::kFloat);
  const at::Tensor map = channels_last(x);
  const Rows rows(map);
  const std::vector<float> zeros(static_cast<size_t>(rows.depth));
  at::Tensor result;
  with_elements(map.scalar_type(), [&](auto* type) {
    const auto* in = device::data<const std::remove_pointer_t<decltype(type)>>(map);
    result = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
      cpu::add_moments(in + first * rows.depth, number, rows.depth, rows.depth, zeros.data(), scratch, sum, square);
    });
  });
  return result[0].to(at::kFloat);
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
    if (!device::takes_loops(x)) return normalize_on_device<T>(x, affine, nullptr, result);
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(result);
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      cpu::normalize_rows(in + first * depth, number, depth, depth, affine.channels, out + first * depth);
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
      with_width<T>(x, {wanted, in}, [&](auto width) {
        result = sums_on_device(x, device::GradientMoments<T, width>{wanted, in, affine.channels});
      });
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
      with_width<T>(x, {wanted, in, out}, [&](auto width) {
        const device::GradientOfInput<T, width> spread{
            shares_of_pass<width>(x), wanted, in, affine.channels, slopes, offsets, out};
        device::launch(x, spread.shares.blocks(), spread);
      });
      return;
    }
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * depth;
      cpu::gradient_rows(wanted + at, in + at, number, depth, affine.channels, slopes, offsets, out + at);
    });
  });
  return result;
}

std::pair<at::Tensor, at::Tensor> take_back(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine) {
  if (!device::takes_loops(x)) {
    const at::Tensor none = at::zeros_like(affine.mean);
    return {gradient_moments(gradient, x, affine), spread(gradient, x, affine, none, none)};
  }
  const at::Tensor of_x = empty_map(x.sizes(), x);
  const int64_t depth = x.size(1);
  at::Tensor moments;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    T* const out = device::data<T>(of_x);
    moments = sums(Rows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      const int64_t at = first * depth;
      cpu::take_back_rows(wanted + at, in + at, number, depth, depth, affine.channels, scratch, sum, product, out + at);
    });
  });
  return {moments, of_x};
}

at::Tensor add_normalized(const at::Tensor& x, const Affine& affine, const at::Tensor& addend) {
  const at::Tensor y = empty_map(x.sizes(), x);
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* added = device::data<const T>(addend);
    if (!device::takes_loops(x)) return normalize_on_device<T>(x, affine, added, y);
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(y);
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * depth;
      cpu::add_normalized_rows(in + at, added + at, number, depth, affine.channels, out + at);
    });
  });
  return y;
}

namespace {

/// of_x  undefined: not wanted
at::Tensor sum_moments(const at::Tensor& gradient, const at::Tensor& y, const at::Tensor& x, const Affine& affine,
                       const at::Tensor& of_addend, const at::Tensor& of_x) {
  at::Tensor moments;
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *made = device::data<const T>(y), *wanted = device::data<const T>(gradient);
    T *const addends = device::data<T>(of_addend), *const inputs = device::data<T>(of_x);
    if (!device::takes_loops(x)) {
      with_width<T>(x, {wanted, made, in, addends}, [&](auto width) {
        moments = sums_on_device(x, device::SumGradientMoments<T, width>{wanted, made, in, affine.channels, addends});
      });
      return;
    }
    moments = sums(Rows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      const int64_t at = first * depth;
      cpu::take_back_sum_rows(wanted + at, made + at, in + at, number, depth, affine.channels, scratch, sum, product,
                              addends + at, inputs == nullptr ? nullptr : inputs + at);
    });
  });
  return moments;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> sum_gradient_moments(const at::Tensor& gradient, const at::Tensor& y,
                                                       const at::Tensor& x, const Affine& affine) {
  const at::Tensor of_addend = empty_map(x.sizes(), x);
  return {sum_moments(gradient, y, x, affine, of_addend, {}), of_addend};
}

TakenBack take_back_sum(const at::Tensor& gradient, const at::Tensor& y, const at::Tensor& x, const Affine& affine) {
  if (!device::takes_loops(x)) {
    const auto [moments, of_addend] = sum_gradient_moments(gradient, y, x, affine);
    const at::Tensor none = at::zeros_like(affine.mean);
    return {moments, of_addend, spread(of_addend, x, affine.without_epilogue(), none, none)};
  }
  TakenBack result{{}, empty_map(x.sizes(), x), empty_map(x.sizes(), x)};
  result.moments = sum_moments(gradient, y, x, affine, result.of_addend, result.of_x);
  return result;
}

ChannelGradients gradients_of_channels(const at::Tensor& x, const at::Tensor& moments, const Affine& affine,
                                       const at::Tensor& inverse_deviation) {
  const auto channels = [&] { return at::empty({x.size(1)}, x.options().dtype(at::kFloat)); };
  const ChannelGradients result{channels(), channels(), channels(), channels()};
  const auto out = [](const at::Tensor& values) { return values.mutable_data_ptr<float>(); };
  device::for_each(
      x, x.size(1),
      device::GradientsOfChannel{moments.const_data_ptr<double>(), x.size(1), affine.channels.scale,
                                 affine.gamma.const_data_ptr<float>(), inverse_deviation.const_data_ptr<float>(),
                                 out(result.mean), out(result.inverse_deviation), out(result.gamma), out(result.beta)});
  return result;
}

}  // namespace osprey::kernels
