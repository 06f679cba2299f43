#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "osprey/config/node.h"
#include "osprey/models/detection_model.h"

namespace osprey::protos {
class TrainEvalPipelineConfig;
}

namespace osprey::models {

struct BuildOptions {
  std::optional<uint64_t> seed;  ///< of the first weights and of dropout; nothing: train_config.seed
  at::Device device = at::kCPU;  ///< kMeta: shapes only, no memory and no values
};

/// The model of a pipeline config, in training mode, with its first weights: equal config and seed give equal weights.
///
/// With `graph_rewriter` its convolutions are rounded to 8 bits, but for types of the original's TF2 (Keras), where the
/// original does not look at it, either.
/// throws ConfigError where the config asks for something impossible, or "... is not supported yet: <field>" for
///        something that is not built
std::shared_ptr<DetectionModel> build_model(const config::ConfigNode<protos::TrainEvalPipelineConfig>& root,
                                            const BuildOptions& options = {});

}  // namespace osprey::models
