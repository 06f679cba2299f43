// A pooling pyramid on ResNet's third block.
#include <fmt/format.h>

#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

template <int kDepth>
std::unique_ptr<FeatureExtractor> make_ssd_resnet_v1_ppn(const ExtractorNode& node,
                                                         const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (node->num_layers() < 1) node.fail("num_layers", "must be >= 1");
  if (node->depth_multiplier() != 1) node.fail("depth_multiplier", "must be 1 for " + node->type());
  BackboneOptions base = backbone_options(node, options);
  base.last_endpoint = "block4";  // made, as in the original, though nothing reads it
  std::shared_ptr<Backbone> backbone = Backbone::Types::instance().build(fmt::format("resnet_v1_{}", kDepth), base);
  std::shared_ptr<Neck> pyramid =
      make_pooling_pyramid_neck({.endpoint = "block3", .num_layers = node->num_layers(), .base_depth = 1024}, *backbone,
                                neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(
      std::move(backbone), std::move(pyramid), extractor_options(node, kMinusImageNetMean, /*min_image_side=*/129));
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet50_v1_ppn", &make_ssd_resnet_v1_ppn<50>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet101_v1_ppn", &make_ssd_resnet_v1_ppn<101>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet152_v1_ppn", &make_ssd_resnet_v1_ppn<152>);

}  // namespace
}  // namespace osprey::nn
