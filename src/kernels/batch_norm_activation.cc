#include "osprey/kernels/batch_norm_activation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
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

/// Two sums per channel, gathered by blocks and then in their order.
template <class Work>  // work(first row, number of rows, scratch, sum, other)
std::array<std::vector<double>, 2> sums(const Rows& rows, Work work) {
  std::vector<double> parts(static_cast<size_t>(2 * rows.blocks * rows.depth));
  rows.for_each_block([&](int64_t block, int64_t first, int64_t number) {
    std::vector<float> scratch(static_cast<size_t>(2 * rows.depth));
    double* sum = parts.data() + 2 * block * rows.depth;
    work(first, number, scratch.data(), sum, sum + rows.depth);
  });
  std::array<std::vector<double>, 2> result;
  for (int64_t which = 0; which < 2; ++which) {
    result[static_cast<size_t>(which)].resize(static_cast<size_t>(rows.depth));
    for (int64_t block = 0; block < rows.blocks; ++block)
      for (int64_t c = 0; c < rows.depth; ++c)
        result[static_cast<size_t>(which)][static_cast<size_t>(c)] +=
            parts[static_cast<size_t>((2 * block + which) * rows.depth + c)];
  }
  return result;
}

/// The sums, and the count that is returned, become those of all replicas.
double add_up(const ReplicaSum& over, std::array<std::vector<double>, 2>& sums, double count) {
  const auto depth = static_cast<int64_t>(sums[0].size());
  const at::Tensor all = at::empty({2 * depth + 1}, at::kDouble);
  double* const numbers = all.mutable_data_ptr<double>();
  std::copy(sums[0].begin(), sums[0].end(), numbers);
  std::copy(sums[1].begin(), sums[1].end(), numbers + depth);
  numbers[2 * depth] = count;
  over.sum(all);
  std::copy_n(numbers, depth, sums[0].begin());
  std::copy_n(numbers + depth, depth, sums[1].begin());
  return numbers[2 * depth];
}

at::Tensor channels(int64_t depth) { return at::empty({depth}, at::kFloat); }

at::Tensor or_value(const at::Tensor& values, int64_t depth, double otherwise) {
  if (!values.defined()) return at::full({depth}, otherwise, at::kFloat);
  TORCH_CHECK(values.scalar_type() == at::kFloat && values.numel() == depth, "expected ", depth,
              " floats, one per channel");
  return values.contiguous();
}

/// Calls `work` with the pointer type of the tensor's elements; bfloat16 as its bits.
template <class Work>
void with_elements(const at::Tensor& x, Work work) {
  if (x.scalar_type() == at::kFloat) {
    work(static_cast<float*>(nullptr));
  } else {
    work(static_cast<uint16_t*>(nullptr));
  }
}

template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

void check(const at::Tensor& x) {
  TORCH_CHECK(fuses_batch_norm(x), "expected a channels_last map of float32 or bfloat16 on the CPU, got ", x.toString(),
              " ", x.sizes());
  TORCH_CHECK(x.numel() > 0, "batch norm of an empty map ", x.sizes());
}

cpu::Curve curve_of(Epilogue::Curve curve) {
  if (curve == Epilogue::Curve::kSwish) return cpu::Curve::kSwish;
  return curve == Epilogue::Curve::kHardSwish ? cpu::Curve::kHardSwish : cpu::Curve::kClamp;
}

/// What the loops need of a batch norm, with the tensors that it points into.
struct Affine {
  Affine(const at::Tensor& gamma, const at::Tensor& beta, const BatchNormed& statistics, int64_t depth,
         const Epilogue& epilogue)
      : scale(or_value(gamma, depth, 1) * statistics.inverse_deviation),
        shift(or_value(beta, depth, 0)),
        mean(statistics.mean),
        loops{mean.const_data_ptr<float>(),
              scale.const_data_ptr<float>(),
              shift.const_data_ptr<float>(),
              epilogue.low,
              epilogue.high,
              curve_of(epilogue.curve)} {}
  at::Tensor scale, shift, mean;
  cpu::ChannelAffine loops;
};

}  // namespace

bool fuses_batch_norm(const at::Tensor& x) {
  return x.is_cpu() && x.dim() == 4 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                                  const Epilogue& epilogue, const ReplicaSum* over) {
  check(x);
  at::NoGradGuard no_grad;
  const Rows rows(x);
  BatchNormed result{at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast), channels(rows.depth),
                     channels(rows.depth)};
  // Sums of differences from the first row stay exact where the mean is far from zero.
  const at::Tensor center = x.permute({0, 2, 3, 1}).reshape({-1, rows.depth})[0].to(at::kFloat).contiguous();
  with_elements(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = elements<T>(x);
    auto moments = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* a, double* b) {
      cpu::add_moments(in + first * rows.depth, number, rows.depth, center.const_data_ptr<float>(), scratch, a, b);
    });
    auto& [sum, square] = moments;
    auto count = static_cast<double>(rows.count);
    std::vector<double> from(center.const_data_ptr<float>(), center.const_data_ptr<float>() + rows.depth);
    if (over != nullptr) {  // others have other centres: from here on differences from zero, which double can bear
      for (size_t c = 0; c < from.size(); ++c) {
        square[c] += 2 * from[c] * sum[c] + count * from[c] * from[c];
        sum[c] += count * from[c];
        from[c] = 0;
      }
      count = add_up(*over, moments, count);
    }
    for (int64_t c = 0; c < rows.depth; ++c) {
      const double mean = sum[static_cast<size_t>(c)] / count;
      const double variance = std::max(0.0, square[static_cast<size_t>(c)] / count - mean * mean);
      result.mean.mutable_data_ptr<float>()[c] = static_cast<float>(from[static_cast<size_t>(c)] + mean);
      result.inverse_deviation.mutable_data_ptr<float>()[c] = static_cast<float>(1 / std::sqrt(variance + epsilon));
    }
    const Affine affine(gamma, beta, result, rows.depth, epilogue);
    T* out = elements<T>(result.y);
    rows.for_each_block([&](int64_t, int64_t first, int64_t number) {
      cpu::normalize_rows(in + first * rows.depth, number, rows.depth, affine.loops, out + first * rows.depth);
    });
  });
  return result;
}

BatchNormGradients batch_norm_activation_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                  const at::Tensor& gamma, const at::Tensor& beta,
                                                  const BatchNormed& statistics, const Epilogue& epilogue,
                                                  const ReplicaSum* over) {
  check(x);
  at::NoGradGuard no_grad;
  TORCH_CHECK(gradient_y.sizes() == x.sizes(), "expected a gradient of size ", x.sizes(), ", got ", gradient_y.sizes());
  const at::Tensor gradient = gradient_y.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
  const Rows rows(x);
  const Affine affine(gamma, beta, statistics, rows.depth, epilogue);
  BatchNormGradients result{at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast), channels(rows.depth),
                            channels(rows.depth)};
  const at::Tensor slope = channels(rows.depth), offset = channels(rows.depth);
  with_elements(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = elements<T>(x), *wanted = elements<T>(gradient);
    auto moments = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* a, double* b) {
      cpu::add_gradient_moments(wanted + first * rows.depth, in + first * rows.depth, number, rows.depth, affine.loops,
                                scratch, a, b);
    });
    auto& [sum, product] = moments;
    for (int64_t c = 0; c < rows.depth; ++c) {
      const double inverse = statistics.inverse_deviation.const_data_ptr<float>()[c];
      result.beta.mutable_data_ptr<float>()[c] = static_cast<float>(sum[static_cast<size_t>(c)]);
      result.gamma.mutable_data_ptr<float>()[c] = static_cast<float>(product[static_cast<size_t>(c)] * inverse);
    }
    auto count = static_cast<double>(rows.count);
    if (over != nullptr) count = add_up(*over, moments, count);
    for (int64_t c = 0; c < rows.depth; ++c) {
      const double total = sum[static_cast<size_t>(c)], along = product[static_cast<size_t>(c)];
      const double inverse = statistics.inverse_deviation.const_data_ptr<float>()[c], scale = affine.loops.scale[c];
      slope.mutable_data_ptr<float>()[c] = static_cast<float>(-scale * inverse * inverse * along / count);
      offset.mutable_data_ptr<float>()[c] = static_cast<float>(-scale * total / count);
    }
    T* out = elements<T>(result.x);
    rows.for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * rows.depth;
      cpu::gradient_rows(wanted + at, in + at, number, rows.depth, affine.loops, slope.const_data_ptr<float>(),
                         offset.const_data_ptr<float>(), out + at);
    });
  });
  return result;
}

}  // namespace osprey::kernels
