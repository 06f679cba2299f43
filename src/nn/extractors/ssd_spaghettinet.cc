#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

/// Everything but the architecture and the padding is constant.
void warn_of_unread(const ExtractorNode& node) {
  std::vector<std::string> unread;
  if (node->has_depth_multiplier()) unread.emplace_back("depth_multiplier");
  if (node->has_min_depth()) unread.emplace_back("min_depth");
  if (node->has_pad_to_multiple()) unread.emplace_back("pad_to_multiple");
  if (node->use_depthwise()) unread.emplace_back("use_depthwise");
  if (node->override_base_feature_extractor_hyperparams())
    unread.emplace_back("override_base_feature_extractor_hyperparams");
  if (!unread.empty())
    SPDLOG_WARN("{}: {} does nothing for {}, which has constants of its own", node.path(), fmt::join(unread, ", "),
                node->type());
}

std::unique_ptr<FeatureExtractor> make_ssd_spaghettinet(const ExtractorNode& node,
                                                        const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  refuse_num_layers(node);
  warn_of_unread(node);
  const std::string name =
      node->spaghettinet_arch_name().empty() ? "spaghettinet_edgetpu_m" : node->spaghettinet_arch_name();
  if (name != "spaghettinet_edgetpu_s" && name != "spaghettinet_edgetpu_m" && name != "spaghettinet_edgetpu_l")
    node.fail("spaghettinet_arch_name",
              fmt::format("must be spaghettinet_edgetpu_s, spaghettinet_edgetpu_m or spaghettinet_edgetpu_l, got '{}'",
                          name));
  BackboneOptions base;
  base.use_explicit_padding = node->use_explicit_padding();
  base.freeze_batch_norm = options.freeze_batch_norm;
  std::shared_ptr<Backbone> backbone = Backbone::Types::instance().build(name, base);
  MultiResolutionOptions outputs;
  outputs.maps = {{"c0n1"}, {"c0n2"}, {"c0n3"}, {"c0n4"}, {"c0n5"}};
  std::shared_ptr<Neck> neck = make_multi_resolution_neck(outputs, *backbone, {});
  BackboneFeatureExtractor::Options pixels = extractor_options(node, kMinusOneToOne, /*min_image_side=*/33);
  pixels.pad_to_multiple = 1;
  return std::make_unique<BackboneFeatureExtractor>(std::move(backbone), std::move(neck), pixels);
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_spaghettinet", &make_ssd_spaghettinet);

}  // namespace
}  // namespace osprey::nn
