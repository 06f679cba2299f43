#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/optim/gradients.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/optim/moving_average.h"
#include "osprey/optim/optimizer.h"

namespace osprey::protos {
class LearningRate;
class Optimizer;
class TrainConfig;
class TrainEvalPipelineConfig;
}  // namespace osprey::protos

namespace osprey::optim {

/// throws  ConfigError for a missing or unknown choice or a value out of range
std::unique_ptr<LearningRate> build_learning_rate(const config::ConfigNode<proto::LearningRate>& config);

/// parameters  those that are trained (filter_variables)
std::unique_ptr<Optimizer> build_optimizer(const config::ConfigNode<proto::Optimizer>& config,
                                           const NamedTensors& parameters, Arithmetic arithmetic);

/// Null where `use_moving_average` is false (it is true by default).
std::unique_ptr<MovingAverage> build_moving_average(const config::ConfigNode<proto::Optimizer>& config,
                                                    const NamedTensors& parameters, Arithmetic arithmetic);

/// Applies freeze_variables and update_trainable_variables.
/// throws  ConfigError for a pattern that is no regular expression, or where nothing is left to train
FilteredVariables build_variable_filter(const config::ConfigNode<proto::TrainConfig>& config,
                                        const NamedTensors& parameters);

/// bias_grad_multiplier, gradient_clipping_by_norm, gradient_clipping_mode
GradientOptions gradient_options(const config::ConfigNode<proto::TrainConfig>& config);

/// What config::arithmetic chooses.
Arithmetic arithmetic_of(const config::ConfigNode<proto::TrainEvalPipelineConfig>& pipeline);

}  // namespace osprey::optim
