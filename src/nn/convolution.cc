#include "osprey/nn/convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/without_autocast.h"
#include "nn/batch_norm_activation.h"
#include "nn/convolution_operation.h"
#include "nn/folded_convolution.h"
#include "nn/quantized_convolution.h"
#include "osprey/kernels/max_pool.h"
#include "osprey/nn/multiply_adds.h"

namespace osprey::nn {
namespace {

Fans fans_of(const ConvBlockOptions& options) {
  const double area = static_cast<double>(options.kernel[0] * options.kernel[1]);
  if (options.depthwise) return {area * static_cast<double>(options.in_depth), area};  // one output per input channel
  return {area * static_cast<double>(options.in_depth), area * static_cast<double>(options.out_depth)};
}

/// `x` with the zeros that the windows of a pooling or convolution need and that are not the same on both sides.
struct Padded {
  at::Tensor x;
  std::array<int64_t, 2> symmetric = {0, 0};  ///< zeros left for the operation itself to add on both sides
};

Padded pad(const at::Tensor& x, Padding padding, std::array<int64_t, 2> kernel, int64_t stride, int64_t dilation,
           double value) {
  const PaddingAmount y = padding_amount(padding, x.size(2), kernel[0], stride, dilation);
  const PaddingAmount z = padding_amount(padding, x.size(3), kernel[1], stride, dilation);
  if (y.before == y.after && z.before == z.after) return {x, {y.before, z.before}};
  return {at::constant_pad_nd(x, {z.before, z.after, y.before, y.after}, value)};
}

}  // namespace

PaddingAmount padding_amount(Padding padding, int64_t side, int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t extent = (kernel - 1) * dilation + 1;
  int64_t total = 0;
  if (padding == Padding::kSame)
    total = std::max<int64_t>(((side + stride - 1) / stride - 1) * stride + extent - side, 0);
  if (padding == Padding::kFixed) total = extent - 1;
  return {total / 2, total - total / 2};
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                    const ConvolutionOptions& options) {
  const int64_t per_value = weights.numel() / weights.size(0);
  const auto counted = [&](at::Tensor y) {
    count_multiply_adds(y.numel() * per_value);
    return y;
  };
  if (takes_depthwise_operation(x, weights, options))
    return counted(depthwise_operation(x, weights, biases, window_over(x, options)));
  if (takes_folded_convolution(x, options))
    return counted(folded_convolution(x, weights, biases, window_over(x, options)));
  const Padded padded = pad(x, options.padding, options.kernel, options.stride, options.dilation, 0);
  if (x.is_meta()) {  // libtorch works out the shape of a convolution without values in Python only
    const auto side = [&](int64_t dimension) {
      const size_t d = static_cast<size_t>(dimension);
      const int64_t extent = (options.kernel[d] - 1) * options.dilation + 1;
      return (padded.x.size(dimension + 2) + 2 * padded.symmetric[d] - extent) / options.stride + 1;
    };
    return counted(x.new_empty({x.size(0), weights.size(0), side(0), side(1)}));
  }
  return counted(convolution_operation(padded.x, weights, biases, options, padded.symmetric).front());
}

std::vector<at::Tensor> convolve_all(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases,
                                     const ConvolutionOptions& options) {
  std::vector<at::Tensor> results;
  const bool together = options.stride == 1 && options.groups == 1 && !weights.is_meta() && !maps.empty();
  if (!together) {
    for (const at::Tensor& map : maps) results.push_back(convolve(map, weights, biases, options));
    return results;
  }
  std::vector<at::Tensor> padded;
  std::array<int64_t, 2> symmetric{};  // the same for all, as nothing is left out
  for (const at::Tensor& map : maps) {
    Padded own = pad(map, options.padding, options.kernel, options.stride, options.dilation, 0);
    padded.push_back(std::move(own.x));
    symmetric = own.symmetric;
  }
  results = convolution_operation(padded, weights, biases, options, symmetric);
  for (const at::Tensor& y : results) count_multiply_adds(y.numel() * (weights.numel() / weights.size(0)));
  return results;
}

at::Tensor upsampled(const at::Tensor& x, int64_t factor) {
  const kernels::WithoutAutocast scope;  // which would make floats of halves on a GPU
  const auto scale = static_cast<double>(factor);
  return at::upsample_nearest2d(x, {x.size(2) * factor, x.size(3) * factor}, scale, scale);
}

at::Tensor max_pool(const at::Tensor& x, int64_t kernel, int64_t stride, Padding padding) {
  const PaddingAmount y = padding_amount(padding, x.size(2), kernel, stride),
                      z = padding_amount(padding, x.size(3), kernel, stride);
  if (takes_own_operators() && kernels::takes_max_pool(x, kernel))
    return kernels::max_pool(x, kernel, {stride, {y.before, y.after, z.before, z.after}});
  const auto pooled = [&](const at::Tensor& map, std::array<int64_t, 2> before, bool ceil_mode) {
    return at::max_pool2d(map, {kernel, kernel}, {stride, stride}, before, {1, 1}, ceil_mode);
  };
  const auto even = [&](const PaddingAmount& side) { return side.before == side.after && 2 * side.before <= kernel; };
  if (even(y) && even(z)) return pooled(x, {y.before, z.before}, /*ceil_mode=*/false);
  // The operation itself lets the last window of a side jut out.
  const auto juts_out = [&](const PaddingAmount& side, int64_t length) {
    return side.before == 0 && side.after < stride && (length + side.after - kernel) % stride == 0;
  };
  if (juts_out(y, x.size(2)) && juts_out(z, x.size(3))) return pooled(x, {0, 0}, /*ceil_mode=*/true);
  return pooled(at::constant_pad_nd(x, {z.before, z.after, y.before, y.after}, -INFINITY), {0, 0}, false);
}

at::Tensor average_pool(const at::Tensor& x, int64_t kernel, int64_t stride, Padding padding) {
  const PaddingAmount y = padding_amount(padding, x.size(2), kernel, stride),
                      z = padding_amount(padding, x.size(3), kernel, stride);
  if (y.before == y.after && z.before == z.after)
    return at::avg_pool2d(x, {kernel, kernel}, {stride, stride}, {y.before, z.before}, /*ceil_mode=*/false,
                          /*count_include_pad=*/false);
  const std::vector<int64_t> amounts = {z.before, z.after, y.before, y.after};
  const at::Tensor sums = at::avg_pool2d(at::constant_pad_nd(x, amounts), {kernel, kernel}, {stride, stride});
  const at::Tensor shares =
      at::avg_pool2d(at::constant_pad_nd(at::ones({1, 1, x.size(2), x.size(3)}, x.options()), amounts),
                     {kernel, kernel}, {stride, stride});
  return sums / shares;
}

ConvBlock::ConvBlock(const ConvBlockOptions& options, const Hyperparams& hyperparams)
    : convolution_{options.kernel, options.stride, options.dilation, options.depthwise ? options.in_depth : 1,
                   options.padding},
      activation_(options.activate ? hyperparams.activation : Activation::kNone),
      out_depth_(options.depthwise ? options.in_depth : options.out_depth) {
  weights_ = add_variable(options.depthwise ? "depthwise_weights" : "weights",
                          {out_depth_, options.depthwise ? 1 : options.in_depth, options.kernel[0], options.kernel[1]},
                          hyperparams.initializer, fans_of(options),
                          options.depthwise ? hyperparams.depthwise_regularizer : hyperparams.regularizer);
  const bool normalize = options.normalize && hyperparams.batch_norm;
  if ((!normalize && options.bias && hyperparams.use_bias) || hyperparams.force_use_bias)
    biases_ = add_variable("biases", {out_depth_}, Initializer::constant(options.bias_init), {},
                           hyperparams.bias_regularizer);
  if (normalize)
    batch_norm_ = register_module("BatchNorm", std::make_shared<BatchNorm>(out_depth_, *hyperparams.batch_norm));
  quantizers_ = quantizers_of_maps(*this, "", out_depth_, hyperparams.quantization, options.maps);
}

bool ConvBlock::rounds() const {
  return !std::ranges::all_of(quantizers_, [](const ConvolutionQuantizers& of_map) {
    return of_map.weights->is_waiting() && of_map.result->is_waiting();
  });
}

FeatureMap ConvBlock::leave(size_t map, BatchNorm& norm, const kernels::MapWithStatistics& made,
                            Activation activation) const {
  count_multiply_adds(made.y.numel() * (weights_.numel() / weights_.size(0)));
  FeatureMap y(norm.leave(made, activation));
  if (is_quantized()) note_ranges(quantizers_.at(map), weights_, norm, y.pending());
  return y;
}

at::Tensor ConvBlock::finish(const at::Tensor& y) {
  return batch_norm_ ? batch_norm_->forward(y, activation_) : activate(y, activation_);
}

at::Tensor ConvBlock::step_by_step(const at::Tensor& x) {
  if (is_quantized())
    return quantized_convolve(x, weights_, biases_, convolution_, batch_norm_.get(), activation_, quantizers_.at(0));
  return finish(convolve(x, weights_, biases_, convolution_));
}

at::Tensor NormsOfMaps::forward(size_t map, const at::Tensor& y) const {
  return norms.empty() ? activate(y, activation) : norms.at(map)->forward(y, activation);
}

bool ConvBlock::leaves_batch_norms(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) const {
  if (rounds() || behind.norms.empty() || batch_norm_ || activation_ != Activation::kNone || biases_.defined())
    return false;
  const kernels::SlidingWindow window = window_over(maps.at(0).pending().x, convolution_);
  return std::ranges::all_of(behind.norms, [&](const auto& norm) { return norm->can_be_left(behind.activation); }) &&
         std::ranges::all_of(maps, [&](const FeatureMap& map) {
           const at::Tensor& x = map.pending().x;
           return window_over(x, convolution_) == window && map.is_pending() == maps[0].is_pending() &&
                  takes_normalized_operation(x, weights_, convolution_, window);
         });
}

std::vector<FeatureMap> ConvBlock::forward_all(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) {
  std::vector<FeatureMap> results;
  if (leaves_batch_norms(maps, behind)) {
    std::vector<kernels::PendingMap> inputs;
    for (const FeatureMap& map : maps) {
      inputs.push_back(map.pending());
      inputs.back().x = as_autocast(inputs.back().x);
    }
    const std::vector<kernels::MapWithStatistics> made = kernels::normalized_convolution(
        inputs, weights_, window_over(inputs[0].x, convolution_), behind.norms[0]->epsilon());
    for (size_t i = 0; i < made.size(); ++i)
      results.push_back(leave(i, *behind.norms.at(i), made[i], behind.activation));
    return results;
  }
  if (is_quantized()) {
    TORCH_CHECK(!batch_norm_ && activation_ == Activation::kNone,
                "a layer of several rounded maps has these behind it");
    for (size_t i = 0; i < maps.size(); ++i)
      results.emplace_back(quantized_convolve(maps[i].values(), weights_, biases_, convolution_, behind.norm(i),
                                              behind.activation, quantizers_.at(i)));
    return results;
  }
  std::vector<at::Tensor> values;
  for (const FeatureMap& map : maps) values.push_back(map.values());
  const std::vector<at::Tensor> made = convolve_all(values, weights_, biases_, convolution_);
  for (size_t i = 0; i < made.size(); ++i) results.emplace_back(behind.forward(i, finish(made[i])));
  return results;
}

at::Tensor ConvBlock::forward(const at::Tensor& x) { return forward_last(x); }

at::Tensor ConvBlock::forward_last(const FeatureMap& x) {
  // Leaving a batch norm just to do it gains nothing, but where windows jump the convolution itself is faster so.
  const bool jumps = convolution_.groups == 1 && convolution_.stride > 1;
  return x.is_pending() || jumps ? forward(x).values() : step_by_step(x.values());
}

ForkedMap ConvBlock::forward_plus(const FeatureMap& x, const at::Tensor& addend, Activation activation,
                                  ConvBlock* next) {
  TORCH_CHECK(activation_ == Activation::kNone, "a block with an activation of its own is no end of a residual unit");
  if (is_quantized()) {  // of which the result is rounded, or its range noted, before the sum
    const FeatureMap result = forward(x);
    kernels::PendingMap map = result.pending();
    const auto clamp = clamp_of(activation);
    if (result.is_pending() && clamp) map.epilogue = *clamp;
    const at::Tensor y = result.is_pending() && clamp ? kernels::pending_sum(map, addend.to(map.x.scalar_type()))
                                                      : activate(result.values() + addend, activation);
    return {y, y};
  }
  if (clamp_of(activation) && leaves_batch_norm(x)) return in_one(x, addend, activation, next);
  if (batch_norm_)
    return batch_norm_->forward_plus(convolve(x.values(), weights_, biases_, convolution_), addend, activation);
  const at::Tensor y = activate_(step_by_step(x.values()).add_(addend), activation);
  return {y, y};
}

bool ConvBlock::leaves_batch_norm(const FeatureMap& x) const {
  return !rounds() && batch_norm_ && batch_norm_->can_be_left(activation_) && !biases_.defined() &&
         takes_normalized_operation(x.pending().x, weights_, convolution_, window_over(x.pending().x, convolution_));
}

bool ConvBlock::reads_sums(const at::Tensor& like) const {
  return convolution_.kernel == std::array<int64_t, 2>{1, 1} && convolution_.stride == 1 && convolution_.groups == 1 &&
         leaves_batch_norm(FeatureMap(like));
}

ForkedMap ConvBlock::in_one(const FeatureMap& x, const at::Tensor& addend, Activation activation, ConvBlock* next) {
  kernels::PendingMap input = x.pending();
  const kernels::SlidingWindow window = window_over(input.x, convolution_);
  input.x = as_autocast(input.x);
  const at::Tensor added = addend.to(input.x.scalar_type());
  const bool read = next != nullptr && next->reads_sums(added);
  const kernels::ActivatedConvolution made = batch_norm_->forward(
      input, weights_, window, added, activation,
      read ? kernels::NextConvolution{next->weights_, next->batch_norm_->epsilon()} : kernels::NextConvolution{});
  count_multiply_adds(made.y.numel() * (weights_.numel() / weights_.size(0)));
  ForkedMap result{made.y, made.again};
  if (read) result.read = next->leave(0, *next->batch_norm_, made.next, next->activation_);
  return result;
}

FeatureMap ConvBlock::forward(const FeatureMap& x) {
  if (!leaves_batch_norm(x)) return step_by_step(x.values());
  kernels::PendingMap input = x.pending();
  const kernels::SlidingWindow window = window_over(input.x, convolution_);
  input.x = as_autocast(input.x);
  return leave(0, *batch_norm_, kernels::normalized_convolution(input, weights_, window, batch_norm_->epsilon()),
               activation_);
}

}  // namespace osprey::nn
