#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make(const config::ConfigNode<proto::SsdFeatureExtractor>& node,
                                       const FeatureExtractorOptions& options) {
  if (node->feature_pyramid_oneof_case() != proto::SsdFeatureExtractor::FEATURE_PYRAMID_ONEOF_NOT_SET)
    node.fail(node->has_fpn() ? "fpn" : "bifpn", "is not used by " + node->type());
  std::shared_ptr<Backbone> backbone =
      Backbone::Types::instance().build("mobilenet_v1", backbone_options(node, options));
  MultiResolutionOptions neck = multi_resolution_options(node);
  neck.maps =
      first_maps(node, {{"Conv2d_11_pointwise"}, {"Conv2d_13_pointwise"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
  std::shared_ptr<Neck> maps = make_multi_resolution_neck(neck, *backbone, neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(
      std::move(backbone), std::move(maps),
      BackboneFeatureExtractor::Options{kMinusOneToOne, pad_to_multiple(node), /*min_image_side=*/33});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1", &make);

}  // namespace
}  // namespace osprey::nn
