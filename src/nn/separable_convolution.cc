#include "osprey/nn/separable_convolution.h"

#include "nn/quantized_convolution.h"

namespace osprey::nn {

SeparableConvBlock::SeparableConvBlock(const SeparableConvBlockOptions& options, const Hyperparams& hyperparams)
    : depthwise_{.kernel = options.kernel,
                 .stride = options.stride,
                 .groups = options.in_depth,
                 .padding = options.padding},
      activation_(options.activate ? hyperparams.activation : Activation::kNone) {
  const auto area = static_cast<double>(options.kernel[0] * options.kernel[1]);
  const auto in = static_cast<double>(options.in_depth), multiplier = static_cast<double>(options.depth_multiplier);
  depthwise_weights_ = add_variable("depthwise_weights",
                                    {options.in_depth, options.depth_multiplier, options.kernel[0], options.kernel[1]},
                                    options.depthwise_initializer.value_or(hyperparams.initializer),
                                    {area * in, area * multiplier}, hyperparams.depthwise_regularizer);
  pointwise_weights_ = add_variable(
      "pointwise_weights", {options.out_depth, options.in_depth * options.depth_multiplier, 1, 1},
      hyperparams.initializer, {in * multiplier, static_cast<double>(options.out_depth)}, hyperparams.regularizer);
  const bool normalize = options.normalize && hyperparams.batch_norm;
  if ((!normalize && options.bias) || hyperparams.force_use_bias)
    biases_ = add_variable("biases", {options.out_depth}, Initializer::constant(options.bias_init), {},
                           hyperparams.bias_regularizer);
  if (normalize)
    batch_norm_ = register_module("BatchNorm", std::make_shared<BatchNorm>(options.out_depth, *hyperparams.batch_norm));
  depthwise_quantizers_ = quantizers_of_maps(*this, "separable_conv2d/", options.in_depth * options.depth_multiplier,
                                             hyperparams.quantization, {options.maps.count});
  quantizers_ = quantizers_of_maps(*this, "", options.out_depth, hyperparams.quantization, options.maps);
}

at::Tensor SeparableConvBlock::depthwise_kernels() const {
  return depthwise_weights_.size(1) == 1 ? depthwise_weights_ : depthwise_weights_.flatten(0, 1).unsqueeze(1);
}

at::Tensor SeparableConvBlock::quantized(const at::Tensor& x, size_t map, BatchNorm* norm,
                                         Activation activation) const {
  const at::Tensor y = quantized_convolve(x, depthwise_kernels(), {}, depthwise_, nullptr, Activation::kNone,
                                          depthwise_quantizers_.at(map));
  return quantized_convolve(y, pointwise_weights_, biases_, {}, norm, activation, quantizers_.at(map));
}

at::Tensor SeparableConvBlock::forward(const at::Tensor& x) {
  if (is_quantized()) return quantized(x, 0, batch_norm_.get(), activation_);
  const at::Tensor y = convolve(convolve(x, depthwise_kernels(), {}, depthwise_), pointwise_weights_, biases_, {});
  return batch_norm_ ? batch_norm_->forward(y, activation_) : activate(y, activation_);
}

std::vector<FeatureMap> SeparableConvBlock::forward_all(const std::vector<FeatureMap>& maps,
                                                        const NormsOfMaps& behind) {
  std::vector<FeatureMap> results;
  if (is_quantized()) {
    TORCH_CHECK(!batch_norm_ && activation_ == Activation::kNone,
                "a layer of several rounded maps has these behind it");
    for (size_t i = 0; i < maps.size(); ++i)
      results.emplace_back(quantized(maps[i].values(), i, behind.norm(i), behind.activation));
    return results;
  }
  for (size_t i = 0; i < maps.size(); ++i) results.emplace_back(behind.forward(i, forward(maps[i].values())));
  return results;
}

KerasSeparable keras_separable(const Hyperparams& given, bool pointwise_too) {
  KerasSeparable result{given, given.initializer};
  result.hyperparams.depthwise_regularizer = given.regularizer;
  if (!pointwise_too) {
    result.hyperparams.initializer = Initializer::variance_scaling(1, Initializer::Mode::kFanAverage, true);
    result.hyperparams.regularizer = {};
  }
  return result;
}

std::shared_ptr<ConvolutionLayer> add_convolution(torch::nn::Module& parent, const std::string& scope, bool separable,
                                                  const ConvBlockOptions& options, const Hyperparams& hyperparams,
                                                  const std::optional<Initializer>& depthwise_initializer) {
  if (!separable) return add_child(parent, scope, std::make_shared<ConvBlock>(options, hyperparams));
  const SeparableConvBlockOptions pair{.in_depth = options.in_depth,
                                       .out_depth = options.out_depth,
                                       .kernel = options.kernel,
                                       .stride = options.stride,
                                       .padding = options.padding,
                                       .depthwise_initializer = depthwise_initializer,
                                       .normalize = options.normalize,
                                       .activate = options.activate,
                                       .bias = options.bias,
                                       .bias_init = options.bias_init,
                                       .maps = options.maps};
  return add_child(parent, scope, std::make_shared<SeparableConvBlock>(pair, hyperparams));
}

}  // namespace osprey::nn
