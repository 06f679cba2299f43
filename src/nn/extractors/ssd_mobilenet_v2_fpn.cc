#include "nn/extractors/options.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v2_fpn(const ExtractorNode& node,
                                                            const FeatureExtractorOptions& options) {
  const bool keras = is_keras(node);
  return pyramid_extractor(node, options,
                           {.backbone = node->use_depthwise() && !keras ? "mobilenet_v2_fpn" : "mobilenet_v2",
                            .endpoints = {"layer_4", "layer_7", "layer_14", "layer_19"},
                            .coarse_scope = "bottom_up_Conv2d_",
                            .first_coarse = 20,
                            .counts_from_last = keras});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v2_fpn", &make_ssd_mobilenet_v2_fpn);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v2_fpn_keras", &make_ssd_mobilenet_v2_fpn);

[[maybe_unused]] const bool named_ssd_mobilenet_v2_fpn =
    add_keras_names("FeatureExtractor.MobilenetV2.fpn.", [](const std::string& name) {
      return feature_pyramid_keras_name("ssd_mobile_net_v2_fpn_keras_feature_extractor", name);
    });

}  // namespace
}  // namespace osprey::nn
