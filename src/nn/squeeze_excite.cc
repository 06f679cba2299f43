#include "osprey/nn/squeeze_excite.h"

namespace osprey::nn {

SqueezeExcite::SqueezeExcite(const SqueezeExciteOptions& options, const Hyperparams& hyperparams)
    : gate_(options.gate) {
  Hyperparams plain = hyperparams;
  plain.activation = options.activation;
  plain.batch_norm = std::nullopt;
  reduce_ = add_child(*this, options.reduce,
                      std::make_shared<ConvBlock>(
                          ConvBlockOptions{.in_depth = options.depth, .out_depth = options.squeezed_depth}, plain));
  expand_ = add_child(
      *this, options.expand,
      std::make_shared<ConvBlock>(
          ConvBlockOptions{.in_depth = options.squeezed_depth, .out_depth = options.depth, .activate = false}, plain));
}

at::Tensor SqueezeExcite::forward(const at::Tensor& x) {
  const at::Tensor mean = x.is_meta() ? x.new_empty({x.size(0), x.size(1), 1, 1}) : x.mean({2, 3}, /*keepdim=*/true);
  const at::Tensor weights = expand_->forward(reduce_->forward(mean));
  if (x.is_meta()) return x;
  const bool hard = gate_ == SqueezeExciteOptions::Gate::kHardSigmoid;
  return x * (hard ? at::hardtanh(weights + 3, 0, 6) * 0.16667 : at::sigmoid(weights));
}

}  // namespace osprey::nn
