#include "nn/extractors/options.h"

#include <fmt/format.h>

namespace osprey::nn {

Hyperparams neck_hyperparams(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  return read_hyperparams(node.child("conv_hyperparams", node->conv_hyperparams()), options.freeze_batch_norm);
}

BackboneOptions backbone_options(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  if (!(node->depth_multiplier() > 0)) node.fail("depth_multiplier", "must be > 0");
  if (node->min_depth() < 1) node.fail("min_depth", "must be >= 1");
  BackboneOptions result;
  result.depth_multiplier = node->depth_multiplier();
  result.min_depth = node->min_depth();
  result.use_explicit_padding = node->use_explicit_padding();
  result.freeze_batch_norm = options.freeze_batch_norm;
  if (node->override_base_feature_extractor_hyperparams()) result.hyperparams = neck_hyperparams(node, options);
  return result;
}

MultiResolutionOptions multi_resolution_options(const ExtractorNode& node) {
  MultiResolutionOptions result;
  result.depth_multiplier = node->depth_multiplier();
  result.min_depth = node->min_depth();
  result.use_explicit_padding = node->use_explicit_padding();
  result.use_depthwise = node->use_depthwise();
  return result;
}

std::vector<MultiResolutionOptions::Map> first_maps(const ExtractorNode& node,
                                                    std::vector<MultiResolutionOptions::Map> maps) {
  const auto count = static_cast<int64_t>(maps.size());
  if (node->num_layers() < 1 || node->num_layers() > count)
    node.fail("num_layers", fmt::format("must be in [1, {}]", count));
  maps.resize(static_cast<size_t>(node->num_layers()));
  return maps;
}

int64_t pad_to_multiple(const ExtractorNode& node) {
  if (node->pad_to_multiple() < 1) node.fail("pad_to_multiple", "must be >= 1");
  return node->pad_to_multiple();
}

}  // namespace osprey::nn
