#include "osprey/train/train_state.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/model_weights.h"

namespace osprey::train {
namespace {

constexpr std::string_view kAverageSuffix = ".ExponentialMovingAverage";
const std::string kScalePrefix = "loss_scale/";
const std::string kRateFactor = "learning_rate_factor";

/// The tensors a run consists of beside the weights, by their name in a checkpoint.
std::map<std::string, at::Tensor> slots(const TrainState& state) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : state.optimizer->state()) result.emplace("optimizer/" + name, tensor);
  if (state.average != nullptr)
    for (const auto& [name, tensor] : state.average->state())
      result.emplace("average/" + name.substr(0, name.size() - kAverageSuffix.size()), tensor);
  return result;
}

std::string shape(const at::Tensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")); }

}  // namespace

checkpoint::Checkpoint snapshot(const TrainState& state) {
  checkpoint::Checkpoint result;
  result.tensors = slots(state);
  if (state.loss_scale != nullptr)
    for (const auto& [name, tensor] : state.loss_scale->state()) result.tensors.emplace(kScalePrefix + name, tensor);
  for (const auto& [name, tensor] : models::variables(*state.model)) result.tensors.emplace("model/" + name, tensor);
  result.attributes["step"] = std::to_string(state.step);
  result.attributes["data_position"] = std::to_string(state.data_position);
  result.attributes["num_classes"] = std::to_string(state.model->num_classes());
  if (state.rollbacks > 0) result.attributes["rollbacks"] = std::to_string(state.rollbacks);
  if (const double factor = state.optimizer->learning_rate_factor(); factor != 1)
    result.attributes[kRateFactor] = fmt::format("{}", factor);
  if (state.skipped.total > 0) {
    result.attributes["skipped_batches"] = std::to_string(state.skipped.total);
    result.attributes["skipped_in_a_row"] = std::to_string(state.skipped.in_a_row);
    result.attributes["last_skipped_step"] = std::to_string(state.skipped.last_step);
  }
  return result;
}

void restore(TrainState& state, const checkpoint::Checkpoint& checkpoint, const std::string& source) {
  std::map<std::string, at::Tensor> stored = checkpoint::with_prefix(checkpoint, "");
  std::string differences;
  std::map<std::string, at::Tensor> wanted = slots(state);
  // The scale is that of a precision: where the other run had none, this one starts its own.
  if (state.loss_scale != nullptr)
    for (const auto& [name, tensor] : state.loss_scale->state())
      if (stored.count(kScalePrefix + name) > 0) wanted.emplace(kScalePrefix + name, tensor);
  for (const auto& [name, tensor] : wanted) {
    const auto found = stored.find(name);
    if (found == stored.end())
      differences += fmt::format("\n  {}: not in the checkpoint, {} in the run", name, shape(tensor));
    else if (found->second.sizes() != tensor.sizes())
      differences +=
          fmt::format("\n  {}: {} in the checkpoint, {} in the run", name, shape(found->second), shape(tensor));
  }
  for (const auto& [name, tensor] : stored)
    if (!name.starts_with("model/") && !name.starts_with(kScalePrefix) && wanted.count(name) == 0)
      differences += fmt::format("\n  {}: {} in the checkpoint, not in the run", name, shape(tensor));

  // The model first: where that differs, its list says more than that of the optimizer.
  checkpoint::load_model(checkpoint, *state.model, /*moving_averages=*/false, source);
  if (!differences.empty())
    throw CheckpointError(
        fmt::format("{}: was written with another optimizer, moving average or set of frozen variables:{}", source,
                    differences.substr(0, 2000)),
        ExitCode::kUsage);
  const at::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : wanted) at::Tensor(tensor).copy_(stored.at(name));
  state.step = checkpoint.number("step", 0);
  state.data_position = checkpoint.number("data_position", state.step);
  state.rollbacks = checkpoint.number("rollbacks", 0);
  const auto factor = checkpoint.attributes.find(kRateFactor);
  state.optimizer->scale_learning_rate(factor == checkpoint.attributes.end() ? 1 : std::stod(factor->second));
  state.skipped = {checkpoint.number("skipped_batches", 0), checkpoint.number("skipped_in_a_row", 0),
                   checkpoint.number("last_skipped_step", -1)};
}

}  // namespace osprey::train
