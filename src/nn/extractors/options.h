#pragma once
#include "osprey/nn/feature_extractor.h"
#include "osprey/nn/hyperparams.h"
#include "osprey/protos/ssd.pb.h"

namespace osprey::nn {

/// What the fields that the feature extractors share mean; each checks its range.

using ExtractorNode = config::ConfigNode<proto::SsdFeatureExtractor>;

/// Pixels to [-1, 1], as the MobileNet and Inception families want them.
inline constexpr Normalization kMinusOneToOne{{2.0f / 255, 2.0f / 255, 2.0f / 255}, {-1, -1, -1}};

/// Pixels to mean 0 and deviation 1 of ImageNet, channel by channel, as EfficientNet wants them.
inline constexpr Normalization kImageNetStatistics{{1 / (255 * 0.229f), 1 / (255 * 0.224f), 1 / (255 * 0.225f)},
                                                   {-0.485f / 0.229f, -0.456f / 0.224f, -0.406f / 0.225f}};

/// Pixels minus the mean of ImageNet, channel by channel, as ResNet wants them.
inline constexpr Normalization kMinusImageNetMean{{1, 1, 1}, {-123.68f, -116.779f, -103.939f}};

/// Whether the type is one of the original's Keras (TF2) models.
bool is_keras(const ExtractorNode& node);

/// Depths, padding and, where the config overrides the backbone's own, the hyperparams.
BackboneOptions backbone_options(const ExtractorNode& node, const FeatureExtractorOptions& options);

/// `conv_hyperparams`, which always rule the layers that are added to the backbone.
Hyperparams neck_hyperparams(const ExtractorNode& node, const FeatureExtractorOptions& options);

/// Everything but the maps.
MultiResolutionOptions multi_resolution_options(const ExtractorNode& node);

/// The first `num_layers` of the maps; all where the config leaves it out.
std::vector<MultiResolutionOptions::Map> first_maps(const ExtractorNode& node,
                                                    std::vector<MultiResolutionOptions::Map> maps);

/// What every extractor reads alike: its padding, and the statistics of pixels that the config wants, else `of_type`.
BackboneFeatureExtractor::Options extractor_options(const ExtractorNode& node, const Normalization& of_type,
                                                    int64_t min_image_side);

/// For types that have neither fpn nor bifpn.
void refuse_pyramid(const ExtractorNode& node);
/// For types whose pyramid says how many maps there are.
void refuse_num_layers(const ExtractorNode& node);

/// The extractor of most types: a backbone and SSD's own maps. `base` starts as `backbone_options(...)`.
std::unique_ptr<FeatureExtractor> multi_resolution_extractor(const ExtractorNode& node,
                                                             const FeatureExtractorOptions& options,
                                                             const std::string& backbone,
                                                             std::vector<MultiResolutionOptions::Map> maps,
                                                             int64_t min_image_side = 33);
std::unique_ptr<FeatureExtractor> multi_resolution_extractor(const ExtractorNode& node,
                                                             const FeatureExtractorOptions& options,
                                                             const std::string& backbone, BackboneOptions base,
                                                             std::vector<MultiResolutionOptions::Map> maps,
                                                             int64_t min_image_side = 33);

/// What feature pyramids of different backbones differ in.
struct PyramidSetting {
  std::string backbone;
  std::vector<std::string> endpoints;  ///< of levels first_level, first_level + 1, ...
  int64_t first_level = 2;             ///< level l has maps of side / 2^l
  std::string coarse_scope;            ///< of the maps beyond the backbone, with a place for their number
  int64_t first_coarse = 0;            ///< number of the first of them
  bool counts_from_last = false;  ///< levels that end below the last one are nevertheless made of the last endpoints
  bool separable = true;          ///< false: convolutions are plain ones, whatever use_depthwise says
  bool reads_padding = true;      ///< false: use_explicit_padding changes nothing
  bool reads_fpn = true;          ///< false: levels and depth are the defaults of `fpn`, whatever it says
  Normalization normalization = kMinusOneToOne;
  int64_t min_image_side = 33;
};

/// The extractor of the types that end in "_fpn".
std::unique_ptr<FeatureExtractor> pyramid_extractor(const ExtractorNode& node, const FeatureExtractorOptions& options,
                                                    const PyramidSetting& setting);

}  // namespace osprey::nn
