#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/nn/box_predictor.h"
#include "osprey/nn/feature_extractor.h"

namespace osprey::protos {
class BoxPredictor;
class SsdFeatureExtractor;
}  // namespace osprey::protos

namespace osprey::nn {

/// The extractor that a config describes, by its `type` or its `custom` message.
/// throws ConfigError where it is not built yet or a value is out of range
std::shared_ptr<FeatureExtractor> build_feature_extractor(const config::ConfigNode<protos::SsdFeatureExtractor>& node,
                                                          const FeatureExtractorOptions& options);

/// throws ConfigError where it is not built yet or a value is out of range
std::shared_ptr<BoxPredictor> build_box_predictor(const config::ConfigNode<protos::BoxPredictor>& node,
                                                  const BoxPredictorOptions& options);

}  // namespace osprey::nn
