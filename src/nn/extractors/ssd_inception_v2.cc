#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_inception_v2(const ExtractorNode& node,
                                                        const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (!node->override_base_feature_extractor_hyperparams())
    node.fail("override_base_feature_extractor_hyperparams",
              "must be true for " + node->type() + ", which has no hyperparams of its own");
  return multi_resolution_extractor(node, options, "inception_v2",
                                    {{"Mixed_4c"}, {"Mixed_5c"}, {"", 512}, {"", 256}, {"", 256}, {"", 128}});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_inception_v2", &make_ssd_inception_v2);

}  // namespace
}  // namespace osprey::nn
