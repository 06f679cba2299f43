#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  return pyramid_extractor(
      node, options,
      {.backbone = "mobilenet_v1",
       .endpoints = {"Conv2d_3_pointwise", "Conv2d_5_pointwise", "Conv2d_11_pointwise", "Conv2d_13_pointwise"},
       .coarse_scope = "bottom_up_Conv2d_",
       .first_coarse = 14});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_fpn", &make);

}  // namespace
}  // namespace osprey::nn
