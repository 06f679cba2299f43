// EfficientDet's extractor: EfficientNet and BiFPN. Its compound scaling (rounds and channels of the pyramid by
// version) is the default of the fields that a config leaves out.
// Tan et al., "EfficientDet: Scalable and Efficient Object Detection", CVPR 2020, table 1.
#include <fmt/format.h>

#include "nn/extractors/options.h"
#include "nn/necks/bifpn.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

struct DetectorScaling {
  int64_t iterations, depth;
};
constexpr DetectorScaling kDetectorScalings[] = {{3, 64},  {4, 88},  {5, 112}, {6, 160},
                                                 {7, 224}, {7, 288}, {8, 384}, {8, 384}};

/// The endpoint of each level from 1 on, the same for every version.
constexpr const char* kEndpoints[] = {"stack_0/block_0", "stack_1/block_1", "stack_2/block_1", "stack_4/block_2",
                                      "stack_6/block_0"};

FusionMethod fusion_method(const config::ConfigNode<proto::BidirectionalFeaturePyramidNetworks>& node) {
  const std::string& name = node->combine_method();
  if (name == "fast_attention") return FusionMethod::kFastAttention;
  if (name == "attention") return FusionMethod::kAttention;
  if (name == "weighted_sum") return FusionMethod::kWeightedSum;
  if (name != "sum") node.fail("combine_method", "must be one of fast_attention, attention, weighted_sum, sum");
  return FusionMethod::kSum;
}

BifpnOptions bifpn_options(const ExtractorNode& node, const DetectorScaling& scaling) {
  const auto pyramid = node.child("bifpn", node->bifpn());
  BifpnOptions result;
  result.min_level = pyramid->min_level();
  result.max_level = pyramid->max_level();
  const auto given = static_cast<int64_t>(std::size(kEndpoints));
  if (result.min_level < 1 || result.min_level > given)
    pyramid.fail("min_level", fmt::format("must be in [1, {}]", given));
  if (result.max_level < result.min_level) pyramid.fail("max_level", "must be >= min_level");
  if (result.max_level > 30) pyramid.fail("max_level", "must be <= 30");
  for (int64_t level = result.min_level; level <= std::min(given, result.max_level); ++level)
    result.endpoints.push_back(kEndpoints[level - 1]);
  result.iterations = pyramid->has_num_iterations() ? pyramid->num_iterations() : scaling.iterations;
  if (result.iterations < 1) pyramid.fail("num_iterations", "must be >= 1");
  result.depth = pyramid->has_num_filters() ? pyramid->num_filters() : scaling.depth;
  if (result.depth < 1) pyramid.fail("num_filters", "must be >= 1");
  result.depth = std::max<int64_t>(result.depth, node->min_depth());
  result.method = fusion_method(pyramid);
  return result;
}

template <size_t kVersion>
std::unique_ptr<FeatureExtractor> make_ssd_efficientnet_bifpn(const ExtractorNode& node,
                                                              const FeatureExtractorOptions& options) {
  if (node->has_fpn()) node.fail("fpn", "is not used by " + node->type());
  refuse_num_layers(node);
  if (node->depth_multiplier() != 1) node.fail("depth_multiplier", "must be 1 for " + node->type());
  if (node->use_explicit_padding()) node.fail("use_explicit_padding", "is not possible with " + node->type());
  if (node->use_depthwise()) node.fail("use_depthwise", "is not possible with " + node->type());
  const BifpnOptions neck = bifpn_options(node, kDetectorScalings[kVersion]);
  BackboneOptions base = backbone_options(node, options);
  if (base.hyperparams && base.hyperparams->regularizer.kind != Regularizer::Kind::kL2)
    node.fail("conv_hyperparams.regularizer",
              "must be an l2_regularizer with override_base_feature_extractor_hyperparams, which takes its weight");
  base.last_endpoint = neck.endpoints.back();
  std::shared_ptr<Backbone> backbone =
      Backbone::Types::instance().build(fmt::format("efficientnet-b{}", kVersion), base);
  std::shared_ptr<Neck> pyramid = make_bifpn_neck(neck, *backbone, neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(
      std::move(backbone), std::move(pyramid), extractor_options(node, kImageNetStatistics, /*min_image_side=*/129));
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b0_bifpn_keras", &make_ssd_efficientnet_bifpn<0>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b1_bifpn_keras", &make_ssd_efficientnet_bifpn<1>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b2_bifpn_keras", &make_ssd_efficientnet_bifpn<2>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b3_bifpn_keras", &make_ssd_efficientnet_bifpn<3>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b4_bifpn_keras", &make_ssd_efficientnet_bifpn<4>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b5_bifpn_keras", &make_ssd_efficientnet_bifpn<5>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b6_bifpn_keras", &make_ssd_efficientnet_bifpn<6>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_efficientnet-b7_bifpn_keras", &make_ssd_efficientnet_bifpn<7>);

/// What the checkpoints call the pyramid of each EfficientNet.
constexpr const char* kCheckpointScopes[] = {"EfficientDet-D0",    "EfficientDet-D1",      "EfficientDet-D2",
                                             "EfficientDet-D3",    "EfficientDet-D4",      "EfficientDet-D5",
                                             "EfficientDet-D6-D7", "EfficientNet-B7_BiFPN"};
static_assert(std::size(kCheckpointScopes) == std::size(kDetectorScalings));

[[maybe_unused]] const bool named_bifpn = [] {
  for (size_t version = 0; version < std::size(kDetectorScalings); ++version)
    add_keras_names(fmt::format("FeatureExtractor.EfficientNet-B{}.bifpn.", version),
                    [prefix = fmt::format("{}/bifpn/", kCheckpointScopes[version])](const std::string& name) {
                      return prefix + bifpn_keras_name(name);
                    });
  return true;
}();

}  // namespace
}  // namespace osprey::nn
