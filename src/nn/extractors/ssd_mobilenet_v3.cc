#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_large(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  return multi_resolution_extractor(
      node, options, "mobilenet_v3_large_detection",
      {{"layer_14/expansion_output"}, {"layer_17"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v3_large", &make_large);

std::unique_ptr<FeatureExtractor> make_small(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  return multi_resolution_extractor(
      node, options, "mobilenet_v3_small_detection",
      {{"layer_10/expansion_output"}, {"layer_13"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v3_small", &make_small);

}  // namespace
}  // namespace osprey::nn
