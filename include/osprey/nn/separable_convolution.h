#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "osprey/nn/convolution.h"

namespace osprey::nn {

struct SeparableConvBlockOptions {
  int64_t in_depth = 0;
  int64_t out_depth = 0;
  std::array<int64_t, 2> kernel = {3, 3};
  int64_t stride = 1;
  Padding padding = Padding::kSame;
  int64_t depth_multiplier = 1;                                     ///< filters per input channel
  std::optional<Initializer> depthwise_initializer = std::nullopt;  ///< nothing: the one of the hyperparams
  bool normalize = true;    ///< false: no batch norm, whatever the hyperparams say
  bool activate = true;     ///< false: no activation, whatever the hyperparams say
  bool bias = true;         ///< biases where nothing normalises
  double bias_init = 0;     ///< first value of the biases
  QuantizedMaps maps = {};  ///< that it is for, where it is rounded
};

/// A depthwise convolution and a 1x1 convolution with nothing between them, then batch norm and activation, under one
/// scope.
///
/// Variables: depthwise_weights [in, multiplier, h, w]; pointwise_weights; biases where there is no batch norm (or the
/// hyperparams insist); BatchNorm/...; where they want quantization, weights_quant/... and act_quant/... of the 1x1
/// convolution, and the same below separable_conv2d/ of the depthwise one.
class SeparableConvBlock : public ConvolutionLayer {
 public:
  SeparableConvBlock(const SeparableConvBlockOptions& options, const Hyperparams& hyperparams);

  /// x  [B, in_depth, H, W]
  at::Tensor forward(const at::Tensor& x);
  FeatureMap forward(const FeatureMap& x) override { return forward(x.values()); }
  std::vector<FeatureMap> forward_all(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) override;
  int64_t out_depth() const { return pointwise_weights_.size(0); }
  bool is_quantized() const override { return !quantizers_.empty(); }

 private:
  /// The two convolutions, and batch norm and activation of the block or of what comes behind it.
  at::Tensor quantized(const at::Tensor& x, size_t map, BatchNorm* norm, Activation activation) const;
  /// [in * multiplier, 1, h, w]
  at::Tensor depthwise_kernels() const;

  ConvolutionOptions depthwise_;
  Activation activation_;
  at::Tensor depthwise_weights_, pointwise_weights_, biases_;
  std::shared_ptr<BatchNorm> batch_norm_;
  std::vector<ConvolutionQuantizers> depthwise_quantizers_, quantizers_;  // of each map; empty: nothing is rounded
};

/// What Keras's separable convolution makes of hyperparams that are written for plain ones: the depthwise half follows
/// them; the other half is drawn as Glorot does and has no penalty, unless it is `pointwise_too`.
struct KerasSeparable {
  Hyperparams hyperparams;
  Initializer depthwise_initializer;
};
KerasSeparable keras_separable(const Hyperparams& given, bool pointwise_too);

/// Adds a convolution to `parent` under `scope`: a ConvBlock or, with `separable`, the SeparableConvBlock of the same
/// depths, kernel and stride, whose depthwise half may have an initializer of its own.
std::shared_ptr<ConvolutionLayer> add_convolution(torch::nn::Module& parent, const std::string& scope, bool separable,
                                                  const ConvBlockOptions& options, const Hyperparams& hyperparams,
                                                  const std::optional<Initializer>& depthwise_initializer = {});

}  // namespace osprey::nn
