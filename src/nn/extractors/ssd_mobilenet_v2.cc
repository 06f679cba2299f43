#include "nn/extractors/options.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v2(const ExtractorNode& node,
                                                        const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  return multi_resolution_extractor(
      node, options, "mobilenet_v2",
      {{"layer_15/expansion_output"}, {"layer_19"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v2", &make_ssd_mobilenet_v2);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v2_keras", &make_ssd_mobilenet_v2);

[[maybe_unused]] const bool named_ssd_mobilenet_v2 =
    add_keras_names("FeatureExtractor.MobilenetV2.FeatureMaps.", [](const std::string& name) {
      return multi_resolution_keras_name("ssd_mobile_net_v2_keras_feature_extractor", name);
    });

}  // namespace
}  // namespace osprey::nn
