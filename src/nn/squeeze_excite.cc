#include "osprey/nn/squeeze_excite.h"

#include <ATen/ATen.h>

#include "nn/convolution_operation.h"
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/squeeze_excite.h"

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

at::Tensor SqueezeExcite::gates_of(const at::Tensor& means) {
  const at::Tensor weights = expand_->forward(reduce_->forward(means));
  if (weights.is_meta()) return weights;
  const bool hard = gate_ == SqueezeExciteOptions::Gate::kHardSigmoid;
  return hard ? at::hardtanh(weights + 3, 0, 6) * 0.16667 : at::sigmoid(weights);
}

at::Tensor SqueezeExcite::forward(const FeatureMap& x) {
  kernels::PendingMap map = x.pending();
  map.x = as_autocast(map.x);
  if (map.x.is_meta()) {
    gates_of(map.x.new_empty({map.x.size(0), map.x.size(1), 1, 1}));
    return map.x;
  }
  if (map.x.numel() > 0 && takes_own_operators() && kernels::fuses_batch_norm(map.x)) {
    const kernels::Squeezed squeezed = kernels::squeeze(map);
    const at::Tensor gates = gates_of(squeezed.means.unflatten(1, {-1, 1, 1}));
    return kernels::excite(squeezed.map, gates.flatten(1).to(at::kFloat));
  }
  const at::Tensor values = x.values();
  return values * gates_of(values.mean({2, 3}, /*keepdim=*/true));
}

}  // namespace osprey::nn
