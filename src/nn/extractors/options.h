#pragma once
#include "osprey/nn/feature_extractor.h"
#include "osprey/nn/hyperparams.h"
#include "osprey/protos/ssd.pb.h"

namespace osprey::nn {

/// What the fields that the feature extractors share mean; each checks its range.

using ExtractorNode = config::ConfigNode<proto::SsdFeatureExtractor>;

/// Pixels to [-1, 1], as the MobileNet and Inception families want them.
inline constexpr Normalization kMinusOneToOne{{2.0f / 255, 2.0f / 255, 2.0f / 255}, {-1, -1, -1}};

/// Depths, padding and, where the config overrides the backbone's own, the hyperparams.
BackboneOptions backbone_options(const ExtractorNode& node, const FeatureExtractorOptions& options);

/// `conv_hyperparams`, which always rule the layers that are added to the backbone.
Hyperparams neck_hyperparams(const ExtractorNode& node, const FeatureExtractorOptions& options);

/// Everything but the maps.
MultiResolutionOptions multi_resolution_options(const ExtractorNode& node);

/// The first `num_layers` of the maps.
std::vector<MultiResolutionOptions::Map> first_maps(const ExtractorNode& node,
                                                    std::vector<MultiResolutionOptions::Map> maps);

int64_t pad_to_multiple(const ExtractorNode& node);

}  // namespace osprey::nn
