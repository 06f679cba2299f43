#pragma once
#include <memory>
#include <optional>
#include <string>

#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"
#include "osprey/nn/squeeze_excite.h"

namespace osprey::nn {

struct InvertedResidualOptions {
  int64_t in_depth = 0;
  int64_t expanded_depth = 0;  ///< not more than in_depth: there is no expansion
  int64_t out_depth = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  bool fused = false;  ///< the expansion is a convolution of the kernel and the stride; nothing is depthwise
  Padding padding = Padding::kSame;
  Activation activation = Activation::kRelu6;  ///< after the expansion and the depthwise convolution
  std::optional<SqueezeExciteOptions> squeeze_excite = std::nullopt;  ///< its depth is filled in here
  bool residual = true;                                               ///< where stride is 1 and the depths are equal
  double drop_rate = 0;  ///< of the whole branch, for one example, while training
  std::string expand_scope = "expand", depthwise_scope = "depthwise", squeeze_scope = "squeeze_excite",
              project_scope = "project";
};

/// Expansion, depthwise convolution, squeeze and excitation, linear projection, and the input on top of it.
///
/// Variables: <expand>/..., <depthwise>/..., <squeeze>/..., <project>/..., as far as there are such layers;
/// post_activation_bypass_quant/... of the sum where the hyperparams want quantization.
/// source  Sandler et al., "MobileNetV2", CVPR 2018, section 3; Howard et al., "Searching for MobileNetV3", ICCV 2019
class InvertedResidual : public torch::nn::Module {
 public:
  InvertedResidual(const InvertedResidualOptions& options, const Hyperparams& hyperparams);

  /// x         [B, in_depth, H, W]
  /// expansion  when given, set to the map behind the expansion (or x, where there is none)
  at::Tensor forward(const FeatureMap& x, const Context& context, at::Tensor* expansion = nullptr);
  int64_t out_depth() const { return project_->out_depth(); }
  int64_t expanded_depth() const { return expanded_depth_; }

 private:
  int64_t expanded_depth_;
  bool residual_;
  std::shared_ptr<ConvBlock> expand_, depthwise_, project_;  // the first two may be missing
  std::shared_ptr<SqueezeExcite> squeeze_excite_;
  std::shared_ptr<DropPath> drop_;
  std::shared_ptr<FakeQuantize> sum_quantizer_;  // may be missing
};

}  // namespace osprey::nn
