#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "osprey/checkpoint/checkpoint.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"
#include "osprey/train/step.h"
#include "osprey/train/train_state.h"
#include "osprey/train/trainer.h"
#include "support/toy_model.h"

namespace osprey::testing {

/// A toy model with momentum, a learning rate that changes, a moving average and clipping: everything a checkpoint must
/// restore.
struct ToyRun {
  explicit ToyRun(const ToyOptions& options, const std::string& optimizer = kMomentum) {
    state.model = make_toy_model(options);
    const auto config = config::parse<proto::Optimizer>(optimizer);
    optim::NamedTensors parameters;
    for (const auto& item : state.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
    state.optimizer = optim::build_optimizer(config.node(), parameters, optim::Arithmetic::kTf1);
    state.average = optim::build_moving_average(config.node(), parameters, optim::Arithmetic::kTf1);
    gradients = std::make_unique<optim::GradientPipeline>(
        parameters, optim::GradientOptions{.bias_multiplier = 2, .clip_norm = 5}, state.model->regularized_weights());
  }

  static constexpr const char* kAdam =
      "adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } } moving_average_decay: 0.9";
  static constexpr const char* kMomentum =
      "momentum_optimizer { learning_rate { exponential_decay_learning_rate { initial_learning_rate: 0.02 "
      "decay_steps: 3 decay_factor: 0.9 } } momentum_optimizer_value: 0.9 } moving_average_decay: 0.9";

  train::TrainState state;
  std::unique_ptr<optim::GradientPipeline> gradients;
};

/// Takes the toy and its data up where the newest checkpoint in a folder has left them, if there is one.
inline void resume(ToyRun& toy, data::BatchSource& source, const std::filesystem::path& folder) {
  if (const auto newest = checkpoint::latest(folder))
    train::restore(toy.state, checkpoint::read(newest->file), newest->file.string());
  source.seek(toy.state.data_position);
}

/// What a trainer cannot do without.
inline train::TrainerParts parts_of(ToyRun& toy, data::BatchSource& source) {
  train::TrainerParts parts;
  parts.state = &toy.state;
  parts.source = &source;
  parts.gradients = toy.gradients.get();
  return parts;
}

}  // namespace osprey::testing
