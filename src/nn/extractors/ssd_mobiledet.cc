#include <spdlog/spdlog.h>

#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobiledet(const ExtractorNode& node,
                                                     const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (node->use_explicit_padding()) node.fail("use_explicit_padding", "is not possible with " + node->type());
  if (node->override_base_feature_extractor_hyperparams())
    SPDLOG_WARN(
        "override_base_feature_extractor_hyperparams does nothing for {}, whose backbone has constants of its own",
        node->type());
  const std::string backbone = node->type().substr(std::string("ssd_").size());
  return multi_resolution_extractor(node, options, backbone,
                                    {{"C4"}, {"C5"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobiledet_cpu", &make_ssd_mobiledet);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobiledet_dsp", &make_ssd_mobiledet);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobiledet_edgetpu", &make_ssd_mobiledet);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobiledet_gpu", &make_ssd_mobiledet);

}  // namespace
}  // namespace osprey::nn
