// MobileNet EdgeTPU: MobileNet v3's plan with plain convolutions instead of depthwise ones in the early layers, and
// neither squeezing nor swish. Described with its code in the original's model collection, 2019; compare Gupta and
// Akin, "Accelerator-aware Neural Network Design using AutoML", 2020.
#include "nn/backbones/mobilenet_chain.h"

namespace osprey::nn {
namespace {

std::unique_ptr<Backbone> make_mobilenet_edgetpu(const BackboneOptions& options) {
  const auto fused = [](double expansion, int64_t depth, int64_t stride) {
    return MobilenetLayer{.expansion = expansion, .depth = depth, .kernel = 3, .stride = stride, .fused = true};
  };
  const auto residual = [](double expansion, int64_t depth, int64_t kernel, int64_t stride) {
    return MobilenetLayer{.expansion = expansion, .depth = depth, .kernel = kernel, .stride = stride};
  };
  MobilenetLayer wide = residual(8, 96, 3, 1);
  wide.residual = false;
  return make_mobilenet_chain("MobilenetEdgeTPU",
                              {{.depth = 32, .kernel = 3, .stride = 2},
                               fused(1, 16, 1),
                               fused(8, 32, 2),
                               fused(4, 32, 1),
                               fused(4, 32, 1),
                               fused(4, 32, 1),
                               fused(8, 48, 2),
                               fused(4, 48, 1),
                               fused(4, 48, 1),
                               fused(4, 48, 1),
                               residual(8, 96, 3, 2),
                               residual(4, 96, 3, 1),
                               residual(4, 96, 3, 1),
                               residual(4, 96, 3, 1),
                               wide,
                               residual(4, 96, 3, 1),
                               residual(4, 96, 3, 1),
                               residual(4, 96, 3, 1),
                               residual(8, 160, 5, 2),
                               residual(4, 160, 5, 1),
                               residual(4, 160, 5, 1),
                               residual(4, 160, 5, 1),
                               residual(8, 192, 3, 1),
                               {.depth = 1280, .kernel = 1}},
                              options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_edgetpu", &make_mobilenet_edgetpu);

}  // namespace
}  // namespace osprey::nn
