#include "osprey/optim/builder.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "osprey/config/resolve.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::optim {
namespace {

template <class Patterns>
std::vector<std::string> checked_patterns(const config::Node& node, const char* field, const Patterns& patterns) {
  for (int i = 0; i < patterns.size(); ++i) {
    try {
      const std::regex compiled(patterns[i]);
    } catch (const std::regex_error&) {  // whose text names the wrong mistake for '*'
      node.fail(fmt::format("{}[{}]", field, i), fmt::format("'{}' is not a regular expression", patterns[i]));
    }
  }
  return {patterns.begin(), patterns.end()};
}

}  // namespace

std::unique_ptr<LearningRate> build_learning_rate(const config::ConfigNode<proto::LearningRate>& config) {
  return LearningRate::Registry::instance().build(config, "learning_rate");
}

std::unique_ptr<Optimizer> build_optimizer(const config::ConfigNode<proto::Optimizer>& config,
                                           const NamedTensors& parameters, Arithmetic arithmetic) {
  return Optimizer::Registry::instance().build(config, "optimizer", parameters, arithmetic);
}

std::unique_ptr<MovingAverage> build_moving_average(const config::ConfigNode<proto::Optimizer>& config,
                                                    const NamedTensors& parameters, Arithmetic arithmetic) {
  if (!config->use_moving_average()) return nullptr;
  const double decay = config->moving_average_decay();
  if (!(decay >= 0 && decay <= 1)) config.fail("moving_average_decay", fmt::format("must be in 0..1, got {}", decay));
  return std::make_unique<MovingAverage>(parameters, decay, arithmetic);
}

FilteredVariables build_variable_filter(const config::ConfigNode<proto::TrainConfig>& config,
                                        const NamedTensors& parameters) {
  VariableFilter filter;
  filter.update = checked_patterns(config, "update_trainable_variables", config->update_trainable_variables());
  filter.freeze = checked_patterns(config, "freeze_variables", config->freeze_variables());
  FilteredVariables variables = filter_variables(parameters, filter);
  if (variables.trained.empty() && !parameters.empty())
    config.fail(filter.freeze.empty() ? "update_trainable_variables" : "freeze_variables",
                "leaves no variable to train");
  return variables;
}

GradientOptions gradient_options(const config::ConfigNode<proto::TrainConfig>& config) {
  const auto checked = [&config](const char* field, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      config.fail(field, fmt::format("must be a finite number >= 0, got {}", value));
    return value;
  };
  GradientOptions options;
  options.bias_multiplier = checked("bias_grad_multiplier", config->bias_grad_multiplier());
  options.clip_norm = checked("gradient_clipping_by_norm", config->gradient_clipping_by_norm());
  options.clip = config->gradient_clipping_mode() == proto::TrainConfig::PER_VARIABLE
                     ? GradientOptions::Clip::kPerVariable
                     : GradientOptions::Clip::kGlobalNorm;
  return options;
}

Arithmetic arithmetic_of(const config::ConfigNode<proto::TrainEvalPipelineConfig>& pipeline) {
  const bool tf2 = config::arithmetic(*pipeline).value == proto::TrainEvalPipelineConfig::TF2;
  return tf2 ? Arithmetic::kTf2 : Arithmetic::kTf1;
}

}  // namespace osprey::optim
