#include "nn/extractors/options.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v1_fpn(const ExtractorNode& node,
                                                            const FeatureExtractorOptions& options) {
  return pyramid_extractor(
      node, options,
      {.backbone = node->use_depthwise() ? "mobilenet_v1_fpn" : "mobilenet_v1",
       .endpoints = {"Conv2d_3_pointwise", "Conv2d_5_pointwise", "Conv2d_11_pointwise", "Conv2d_13_pointwise"},
       .coarse_scope = "bottom_up_Conv2d_",
       .first_coarse = 14,
       .counts_from_last = is_keras(node)});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_fpn", &make_ssd_mobilenet_v1_fpn);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_fpn_keras", &make_ssd_mobilenet_v1_fpn);

[[maybe_unused]] const bool named_ssd_mobilenet_v1_fpn =
    add_keras_names("FeatureExtractor.MobilenetV1.fpn.", [](const std::string& name) {
      return feature_pyramid_keras_name("ssd_mobile_net_v1_fpn_keras_feature_extractor", name);
    });

}  // namespace
}  // namespace osprey::nn
