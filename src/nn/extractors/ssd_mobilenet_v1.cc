#include "nn/extractors/options.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v1(const ExtractorNode& node,
                                                        const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  return multi_resolution_extractor(
      node, options, "mobilenet_v1",
      {{"Conv2d_11_pointwise"}, {"Conv2d_13_pointwise"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1", &make_ssd_mobilenet_v1);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_keras", &make_ssd_mobilenet_v1);

[[maybe_unused]] const bool named_ssd_mobilenet_v1 =
    add_keras_names("FeatureExtractor.MobilenetV1.FeatureMaps.", [](const std::string& name) {
      return multi_resolution_keras_name("ssd_mobile_net_v1_keras_feature_extractor", name);
    });

}  // namespace
}  // namespace osprey::nn
