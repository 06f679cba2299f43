#include "kernels/batch_norm_steps.h"

#include <ATen/ATen.h>

#include <vector>

#include "kernels/arithmetic/moments.h"
#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {
namespace {

at::Tensor or_value(const at::Tensor& values, const at::Tensor& x, double otherwise) {
  return values.defined() ? device::aligned(values) : at::full({x.size(1)}, otherwise, x.options().dtype(at::kFloat));
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

void check_channels(const at::Tensor& x, const at::Tensor& values, const char* name) {
  TORCH_CHECK(!values.defined() || (values.scalar_type() == at::kFloat && values.sizes() == at::IntArrayRef{x.size(1)}),
              "expected ", x.size(1), " ", name, ", a float for each channel, got ", values.toString(), " ",
              values.defined() ? values.sizes() : at::IntArrayRef());
}

Epilogue epilogue_of(double low, double high, int64_t curve) {
  TORCH_CHECK(curve >= 0 && curve <= 2, "curve must be 0 (clamp), 1 (swish) or 2 (hard swish), got ", curve);
  return {static_cast<float>(low), static_cast<float>(high), static_cast<Epilogue::Curve>(curve)};
}

Affine::Affine(const at::Tensor& x, const at::Tensor& gamma_or_none, const at::Tensor& beta, const at::Tensor& means,
               const at::Tensor& inverse_deviation, const Epilogue& epilogue)
    : gamma(or_value(gamma_or_none, x, 1)),
      mean(device::aligned(means)),
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
      with_width<T>(x, {in}, [&](auto width) { result = column_sums_on_device(x, device::Moments<T, width>{in}); });
      return;
    }
    const int64_t depth = x.size(1);
    const MapRows rows(x);
    std::vector<float> center(static_cast<size_t>(depth));
    for (int64_t c = 0; c < depth; ++c) center[static_cast<size_t>(c)] = load(in + c);
    result = column_sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
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
  const MapRows rows(map);
  const std::vector<float> zeros(static_cast<size_t>(rows.depth));
  at::Tensor result;
  with_elements(map.scalar_type(), [&](auto* type) {
    const auto* in = device::data<const std::remove_pointer_t<decltype(type)>>(map);
    result = column_sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
      cpu::add_moments(in + first * rows.depth, number, rows.depth, rows.depth, zeros.data(), scratch, sum, square);
    });
  });
  return result[0].to(at::kFloat);
}

at::Tensor added_up(const at::Tensor& sums) {
  if (sums.dim() == 2) return sums;
  const at::Tensor result = at::empty({2, sums.size(2)}, sums.options());
  finish_sums(sums, device::KeepSums{sums.size(2), result.mutable_data_ptr<double>()});
  return result;
}

std::pair<at::Tensor, at::Tensor> statistics(const at::Tensor& moments, double count, double epsilon) {
  const at::Tensor mean = at::empty({moments.size(-1)}, moments.options().dtype(at::kFloat)),
                   inverse_deviation = at::empty_like(mean);
  finish_sums(moments, device::Statistics{count, epsilon, mean.mutable_data_ptr<float>(),
                                          inverse_deviation.mutable_data_ptr<float>()});
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
    MapRows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
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
        device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
          result = column_sums_on_device(
              x, device::GradientMoments<T, width, decltype(curve)>{wanted, in, affine.channels, curve});
        });
      });
      return;
    }
    result = column_sums(MapRows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      cpu::add_gradient_moments(wanted + first * depth, in + first * depth, number, depth, affine.channels, scratch,
                                sum, product);
    });
  });
  return result;
}

at::Tensor spread(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine, const at::Tensor& given_slope,
                  const at::Tensor& given_offset) {
  const at::Tensor result = empty_map(x.sizes(), x), slope = device::aligned(given_slope),
                   offset = device::aligned(given_offset);
  const auto *slopes = slope.const_data_ptr<float>(), *offsets = offset.const_data_ptr<float>();
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    T* const out = device::data<T>(result);
    if (!device::takes_loops(x)) {
      with_width<T>(x, {wanted, in, out}, [&](auto width) {
        device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
          const device::GradientOfInput<T, width, decltype(curve)> spread{
              shares_of_pass<width>(x), wanted, in, affine.channels, curve, slopes, offsets, out};
          device::launch(x, spread.shares.blocks(), spread);
        });
      });
      return;
    }
    MapRows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
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
    moments = column_sums(MapRows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      const int64_t at = first * depth;
      cpu::take_back_rows(wanted + at, in + at, number, depth, depth, affine.channels, scratch, sum, product, out + at);
    });
  });
  return {moments, of_x};
}

ChannelGradients gradients_of_channels(const at::Tensor& x, const at::Tensor& moments, const Affine& affine,
                                       const at::Tensor& given_inverse_deviation) {
  const at::Tensor inverse_deviation = given_inverse_deviation.contiguous();
  const auto channels = [&] { return at::empty({x.size(1)}, x.options().dtype(at::kFloat)); };
  const ChannelGradients result{channels(), channels(), channels(), channels()};
  const auto out = [](const at::Tensor& values) { return values.mutable_data_ptr<float>(); };
  finish_sums(moments, device::GradientsOfChannel{affine.channels.scale, affine.gamma.const_data_ptr<float>(),
                                                  inverse_deviation.const_data_ptr<float>(), out(result.mean),
                                                  out(result.inverse_deviation), out(result.gamma), out(result.beta)});
  return result;
}

}  // namespace osprey::kernels
