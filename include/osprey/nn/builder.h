#pragma once
#include <memory>
#include <string>

#include "osprey/config/node.h"
#include "osprey/nn/box_predictor.h"
#include "osprey/nn/feature_extractor.h"
#include "osprey/nn/hyperparams.h"

namespace osprey::protos {
class BoxPredictor;
class SsdFeatureExtractor;
}  // namespace osprey::protos

namespace osprey::nn {

/// The extractor that a config describes, by its `type` or its `custom` message.
/// throws ConfigError where it is not built yet or a value is out of range
std::shared_ptr<FeatureExtractor> build_feature_extractor(const config::ConfigNode<protos::SsdFeatureExtractor>& node,
                                                          const FeatureExtractorOptions& options);

/// What a classifier of pictures is made of.
struct ClassificationBackbone {
  std::shared_ptr<FeatureExtractor> extractor;  ///< of one map, the mean of the backbone's last: [B, depth, 1, 1]
  std::string logits_scope;  ///< place of the layer of scores beside the extractor's, as in published checkpoints
  Hyperparams hyperparams;   ///< of that layer
};

/// The whole backbone that `type` names.
/// throws ConfigError where it is none, or a value is out of range
ClassificationBackbone build_classification_backbone(const config::ConfigNode<protos::SsdFeatureExtractor>& node,
                                                     const FeatureExtractorOptions& options);

/// throws ConfigError where it is not built yet or a value is out of range
std::shared_ptr<BoxPredictor> build_box_predictor(const config::ConfigNode<protos::BoxPredictor>& node,
                                                  const BoxPredictorOptions& options);

}  // namespace osprey::nn
