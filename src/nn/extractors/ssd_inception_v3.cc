#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_inception_v3(const ExtractorNode& node,
                                                        const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (!node->override_base_feature_extractor_hyperparams())
    node.fail("override_base_feature_extractor_hyperparams",
              "must be true for " + node->type() + ", which has no hyperparams of its own");
  // Below 75 pixels the convolutions without padding leave nothing of the map.
  return multi_resolution_extractor(node, options, "inception_v3",
                                    {{"Mixed_5d"}, {"Mixed_6e"}, {"Mixed_7c"}, {"", 512}, {"", 256}, {"", 128}},
                                    /*min_image_side=*/75);
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_inception_v3", &make_ssd_inception_v3);

}  // namespace
}  // namespace osprey::nn
