#include "osprey/nn/inverted_residual.h"

namespace osprey::nn {

InvertedResidual::InvertedResidual(const InvertedResidualOptions& options, const Hyperparams& hyperparams)
    : expanded_depth_(std::max(options.expanded_depth, options.in_depth)),
      residual_(options.residual && options.stride == 1 && options.in_depth == options.out_depth) {
  Hyperparams inner = hyperparams;
  inner.activation = options.activation;
  const std::array<int64_t, 2> kernel = {options.kernel, options.kernel};
  if (expanded_depth_ > options.in_depth) {
    ConvBlockOptions expand{.in_depth = options.in_depth, .out_depth = expanded_depth_};
    if (options.fused) {
      expand.kernel = kernel;
      expand.stride = options.stride;
      expand.padding = options.padding;
    }
    expand_ = add_child(*this, options.expand_scope, std::make_shared<ConvBlock>(expand, inner));
  }
  if (!options.fused)
    depthwise_ = add_child(*this, options.depthwise_scope,
                           std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = expanded_depth_,
                                                                        .kernel = kernel,
                                                                        .stride = options.stride,
                                                                        .padding = options.padding,
                                                                        .depthwise = true},
                                                       inner));
  if (options.squeeze_excite) {
    SqueezeExciteOptions squeeze = *options.squeeze_excite;
    squeeze.depth = expanded_depth_;
    squeeze_excite_ = std::make_shared<SqueezeExcite>(squeeze, hyperparams);
    if (options.squeeze_scope.empty()) {
      adopt_children(*this, *squeeze_excite_);
    } else {
      add_child(*this, options.squeeze_scope, squeeze_excite_);
    }
  }
  project_ =
      add_child(*this, options.project_scope,
                std::make_shared<ConvBlock>(
                    ConvBlockOptions{.in_depth = expanded_depth_, .out_depth = options.out_depth, .activate = false},
                    hyperparams));
  if (residual_ && options.drop_rate > 0)
    drop_ = register_module("drop", std::make_shared<DropPath>(options.drop_rate));
  if (residual_) sum_quantizer_ = add_sum_quantizer(*this, "post_activation_bypass_quant", hyperparams.quantization);
}

at::Tensor InvertedResidual::forward(const FeatureMap& x, const Context& context, at::Tensor* expansion) {
  const FeatureMap given = residual_ ? FeatureMap(x.values()) : x;
  FeatureMap inner = given;
  if (expand_) inner = expansion == nullptr ? expand_->forward(inner) : expand_->forward_last(inner);
  if (expansion != nullptr) inner = *expansion = inner.values();
  if (depthwise_) inner = depthwise_->forward(inner);
  if (squeeze_excite_) inner = squeeze_excite_->forward(inner);
  if (!residual_) return project_->forward_last(inner);
  const at::Tensor sum = drop_ ? drop_->forward(project_->forward_last(inner), context) + given.values()
                               : project_->forward_plus(inner, given.values(), Activation::kNone).map;
  return sum_quantizer_ ? sum_quantizer_->forward(sum) : sum;
}

}  // namespace osprey::nn
