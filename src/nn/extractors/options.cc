#include "nn/extractors/options.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace osprey::nn {
namespace {

ResidualOptions residual_options(const ExtractorNode& node) {
  ResidualOptions result;
  if (!node->has_residual_network()) return result;
  if (!node->type().starts_with("ssd_resnet") && !node->type().starts_with("resnet_"))
    node.fail("residual_network", "is not used by " + node->type());
  const auto residual = node.child("residual_network", node->residual_network());
  using Place = ResidualOptions::StridePlace;
  switch (residual->stride_place()) {
    case proto::ResidualNetwork::AUTO:
      break;
    case proto::ResidualNetwork::BLOCK_END:
      result.stride_place = Place::kBlockEnd;
      break;
    case proto::ResidualNetwork::FIRST_CONVOLUTION:
      result.stride_place = Place::kFirstConvolution;
      break;
    case proto::ResidualNetwork::FIRST_3X3_CONVOLUTION:
      result.stride_place = Place::kFirst3x3Convolution;
      break;
  }
  result.zero_init_last_batch_norm = residual->zero_init_last_batch_norm();
  return result;
}

/// What the config wants of the pixels, else what the type does.
Normalization normalization(const ExtractorNode& node, const Normalization& of_type) {
  if (!node->has_image_normalization()) return of_type;
  const auto wanted = node.child("image_normalization", node->image_normalization());
  Normalization result;
  const int channels = static_cast<int>(result.scale.size());
  if (wanted->mean_size() != channels) wanted.fail("mean", "must have three values: red, green, blue");
  if (wanted->deviation_size() != channels && wanted->deviation_size() != 0)
    wanted.fail("deviation", "must have three values: red, green, blue");
  for (int c = 0; c < channels; ++c) {
    const float mean = wanted->mean(c), deviation = wanted->deviation_size() > 0 ? wanted->deviation(c) : 1;
    if (!(mean >= 0 && mean <= 255)) wanted.fail("mean", "must be in [0, 255]");
    if (!(deviation > 0)) wanted.fail("deviation", "must be > 0");
    result.scale[static_cast<size_t>(c)] = 1 / deviation;
    result.offset[static_cast<size_t>(c)] = -mean / deviation;
  }
  return result;
}

}  // namespace

bool is_keras(const ExtractorNode& node) { return node->type().ends_with("_keras"); }

Hyperparams neck_hyperparams(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  Hyperparams result = read_hyperparams(node.child("conv_hyperparams", node->conv_hyperparams()),
                                        options.freeze_batch_norm, is_keras(node));
  const bool without_offset = result.batch_norm && !result.batch_norm->center;
  result.quantization = options.quantization;
  // Keras's layers also have biases where the batch norm has no offset
  result.force_use_bias = is_keras(node) && (result.force_use_bias || without_offset);
  return result;
}

BackboneOptions backbone_options(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  if (!(node->depth_multiplier() > 0)) node.fail("depth_multiplier", "must be > 0");
  if (node->min_depth() < 1) node.fail("min_depth", "must be >= 1");
  BackboneOptions result;
  result.depth_multiplier = node->depth_multiplier();
  result.min_depth = node->min_depth();
  result.use_explicit_padding = node->use_explicit_padding();
  result.freeze_batch_norm = options.freeze_batch_norm;
  result.quantization = options.quantization;
  result.keras = is_keras(node);
  result.residual = residual_options(node);
  if (node->override_base_feature_extractor_hyperparams()) {
    result.hyperparams = neck_hyperparams(node, options);
    result.hyperparams->quantization.reset();    // which is for the backbone to take or leave
    result.hyperparams->force_use_bias = false;  // Keras's networks say themselves whether they have biases
    const auto& batch_norm = result.hyperparams->batch_norm;
    if (result.residual.zero_init_last_batch_norm && !(batch_norm && (batch_norm->scale || !result.keras)))
      node.fail("residual_network.zero_init_last_batch_norm", "needs a batch norm in conv_hyperparams, with scale");
  }
  return result;
}

MultiResolutionOptions multi_resolution_options(const ExtractorNode& node) {
  MultiResolutionOptions result;
  result.depth_multiplier = node->depth_multiplier();
  result.min_depth = node->min_depth();
  result.use_explicit_padding = node->use_explicit_padding();
  result.use_depthwise = node->use_depthwise();
  result.keras = is_keras(node);
  return result;
}

std::vector<MultiResolutionOptions::Map> first_maps(const ExtractorNode& node,
                                                    std::vector<MultiResolutionOptions::Map> maps) {
  if (!node->has_num_layers()) return maps;
  const auto count = static_cast<int64_t>(maps.size());
  if (node->num_layers() < 1 || node->num_layers() > count)
    node.fail("num_layers", fmt::format("must be in [1, {}]", count));
  maps.resize(static_cast<size_t>(node->num_layers()));
  return maps;
}

BackboneFeatureExtractor::Options extractor_options(const ExtractorNode& node, const Normalization& of_type,
                                                    int64_t min_image_side) {
  if (node->pad_to_multiple() < 1) node.fail("pad_to_multiple", "must be >= 1");
  return {normalization(node, of_type), node->pad_to_multiple(), min_image_side};
}

void refuse_pyramid(const ExtractorNode& node) {
  if (node->feature_pyramid_oneof_case() != proto::SsdFeatureExtractor::FEATURE_PYRAMID_ONEOF_NOT_SET)
    node.fail(node->has_fpn() ? "fpn" : "bifpn", "is not used by " + node->type());
}

void refuse_num_layers(const ExtractorNode& node) {
  if (node->has_num_layers())
    node.fail("num_layers", fmt::format("is not used by {}, whose levels are those of its pyramid", node->type()));
}

std::unique_ptr<FeatureExtractor> multi_resolution_extractor(const ExtractorNode& node,
                                                             const FeatureExtractorOptions& options,
                                                             const std::string& backbone,
                                                             std::vector<MultiResolutionOptions::Map> maps,
                                                             int64_t min_image_side) {
  return multi_resolution_extractor(node, options, backbone, backbone_options(node, options), std::move(maps),
                                    min_image_side);
}

std::unique_ptr<FeatureExtractor> multi_resolution_extractor(const ExtractorNode& node,
                                                             const FeatureExtractorOptions& options,
                                                             const std::string& backbone, BackboneOptions base,
                                                             std::vector<MultiResolutionOptions::Map> maps,
                                                             int64_t min_image_side) {
  MultiResolutionOptions neck = multi_resolution_options(node);
  neck.maps = first_maps(node, std::move(maps));
  for (const MultiResolutionOptions::Map& map : neck.maps)
    if (!map.from.empty()) base.last_endpoint = map.from;
  std::shared_ptr<Backbone> network = Backbone::Types::instance().build(backbone, base);
  std::shared_ptr<Neck> made = make_multi_resolution_neck(neck, *network, neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(std::move(network), std::move(made),
                                                    extractor_options(node, kMinusOneToOne, min_image_side));
}

std::unique_ptr<FeatureExtractor> pyramid_extractor(const ExtractorNode& node, const FeatureExtractorOptions& options,
                                                    const PyramidSetting& setting) {
  if (node->has_bifpn()) node.fail("bifpn", "is not used by " + node->type());
  refuse_num_layers(node);
  static const std::decay_t<decltype(node->fpn())> defaults;
  const auto fpn = node.child("fpn", setting.reads_fpn ? node->fpn() : defaults);
  if (!setting.reads_fpn &&
      (node->fpn().min_level() != fpn->min_level() || node->fpn().max_level() != fpn->max_level() ||
       node->fpn().additional_layer_depth() != fpn->additional_layer_depth()))
    SPDLOG_WARN("{}: {} does not read it: levels {} to {}, depth {}", node.path_of("fpn"), node->type(),
                fpn->min_level(), fpn->max_level(), fpn->additional_layer_depth());
  const int64_t last = setting.first_level + static_cast<int64_t>(setting.endpoints.size()) - 1;
  if (fpn->min_level() < setting.first_level || fpn->min_level() > last)
    fpn.fail("min_level", fmt::format("must be in [{}, {}] for {}", setting.first_level, last, node->type()));
  if (fpn->max_level() < fpn->min_level()) fpn.fail("max_level", "must be >= min_level");
  if (fpn->max_level() > 30) fpn.fail("max_level", "must be <= 30");
  if (fpn->additional_layer_depth() < 1) fpn.fail("additional_layer_depth", "must be >= 1");

  FeaturePyramidOptions neck;
  const int64_t skipped = setting.counts_from_last ? std::max<int64_t>(last - fpn->max_level(), 0) : 0;
  for (int64_t level = fpn->min_level(); level <= fpn->max_level(); ++level) {
    if (level <= last) {
      neck.endpoints.push_back(setting.endpoints[static_cast<size_t>(level - setting.first_level + skipped)]);
    } else {
      neck.coarse_scopes.push_back(fmt::format("{}{}", setting.coarse_scope, setting.first_coarse + level - last - 1));
    }
  }
  neck.depth = std::max<int64_t>(static_cast<int64_t>(fpn->additional_layer_depth() * node->depth_multiplier()),
                                 node->min_depth());
  neck.use_explicit_padding = node->use_explicit_padding() && setting.reads_padding;
  neck.use_depthwise = node->use_depthwise() && setting.separable;
  neck.keras = is_keras(node);
  std::shared_ptr<Backbone> backbone =
      Backbone::Types::instance().build(setting.backbone, backbone_options(node, options));
  std::shared_ptr<Neck> pyramid = make_feature_pyramid_neck(neck, *backbone, neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(
      std::move(backbone), std::move(pyramid), extractor_options(node, setting.normalization, setting.min_image_side));
}

}  // namespace osprey::nn
