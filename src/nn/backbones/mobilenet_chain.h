#pragma once
#include <vector>

#include "osprey/nn/backbone.h"
#include "osprey/nn/inverted_residual.h"

namespace osprey::nn {

/// One layer of a network of the kind of MobileNet v2 and v3.
struct MobilenetLayer {
  double expansion = 0;  ///< of the input's depth; 0: a plain convolution instead of an inverted residual
  int64_t depth = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  Activation activation = Activation::kRelu;
  bool squeeze = false;
  bool fused = false;
  bool residual = true;
  bool last = false;  ///< the convolution at the end
};

/// A chain of such layers. Its endpoints are layer_1, layer_2, ... and, of inverted residuals, the maps behind the
/// expansion: layer_14/expansion_output.
std::unique_ptr<Backbone> make_mobilenet_chain(const std::string& scope, const std::vector<MobilenetLayer>& layers,
                                               const BackboneOptions& options);

}  // namespace osprey::nn
