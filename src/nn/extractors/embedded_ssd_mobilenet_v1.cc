#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

/// MobileNet v1 with one map less than `ssd_mobilenet_v1`, made for small depth multipliers and images of 256x256.
std::unique_ptr<FeatureExtractor> make_embedded_ssd_mobilenet_v1(const ExtractorNode& node,
                                                                 const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (node->pad_to_multiple() != 1) node.fail("pad_to_multiple", "must be 1 for " + node->type());
  BackboneOptions base = backbone_options(node, options);
  base.regularize_depthwise = false;
  return multi_resolution_extractor(
      node, options, "mobilenet_v1", base,
      {{"Conv2d_11_pointwise"}, {"Conv2d_13_pointwise"}, {"", 512}, {"", 256}, {"", 256, /*kernel=*/2}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "embedded_ssd_mobilenet_v1", &make_embedded_ssd_mobilenet_v1);

}  // namespace
}  // namespace osprey::nn
