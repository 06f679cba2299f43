#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_edgetpu(const ExtractorNode& node,
                                                             const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  return multi_resolution_extractor(
      node, options, "mobilenet_edgetpu",
      {{"layer_18/expansion_output"}, {"layer_23"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_edgetpu", &make_ssd_mobilenet_edgetpu);

}  // namespace
}  // namespace osprey::nn
