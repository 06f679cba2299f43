#pragma once
#include <memory>
#include <string>

#include "osprey/nn/convolution.h"

namespace osprey::nn {

struct SqueezeExciteOptions {
  enum class Gate {
    kSigmoid,
    kHardSigmoid,  ///< relu6(x + 3) * 0.16667, which is how MobileNet v3 rounds the sixth
  };
  int64_t depth = 0;
  int64_t squeezed_depth = 0;
  Activation activation = Activation::kRelu;  ///< between the two convolutions
  Gate gate = Gate::kSigmoid;
  std::string reduce = "Conv";  ///< scopes of the two convolutions
  std::string expand = "Conv_1";
};

/// Weighs the channels of a map by what they hold on average over the whole map.
/// source  Hu et al., "Squeeze-and-Excitation Networks", CVPR 2018
class SqueezeExcite : public torch::nn::Module {
 public:
  /// hyperparams  their batch norm and activation are not looked at
  SqueezeExcite(const SqueezeExciteOptions& options, const Hyperparams& hyperparams);

  /// x  [B, depth, H, W], of which batch norm and activation may be pending
  at::Tensor forward(const FeatureMap& x);

 private:
  /// means  [B, depth, 1, 1], as what comes of them
  at::Tensor gates_of(const at::Tensor& means);

  SqueezeExciteOptions::Gate gate_;
  std::shared_ptr<ConvBlock> reduce_, expand_;
};

}  // namespace osprey::nn
