#include "osprey/checkpoint/model_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>

#include "osprey/base/error.h"
#include "osprey/checkpoint/tensorflow_checkpoint.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/name_map.h"
#include "osprey/nn/quantization.h"

namespace osprey::checkpoint {
namespace {

/// What the original may call one of our variables: a slim model, a Keras model, a quantized graph.
std::vector<std::string> original_names(const std::string& name) {
  std::vector<std::string> names = {nn::tf_name(name)};
  if (const auto keras = nn::keras_name(name)) names.push_back(*keras);
  for (const std::string& quantized : nn::tf_quantizer_names(name)) names.push_back(quantized);
  return names;
}

/// Counters of steps, which the original keeps under other names, are given what makes no more difference.
void fill_counters(const models::DetectionModel& model, const std::string& prefix, Checkpoint& result) {
  constexpr int64_t kMany = 1'000'000;
  for (const auto& [name, tensor] : models::variables(model))
    if (!tensor.is_floating_point()) result.tensors.emplace(prefix + name, at::full(tensor.sizes(), kMany, at::kLong));
}

/// Moves those of the original's tensors that are variables of the model to `result`, in our layouts.
void take_over(std::map<std::string, at::Tensor>& originals, const models::DetectionModel& model,
               const std::string& prefix, Checkpoint& result) {
  for (const auto& [name, tensor] : models::variables(model))
    for (const std::string& original : original_names(name))
      if (const auto found = originals.find(original); found != originals.end()) {
        result.tensors[prefix + name] = nn::from_tf_layout(name, found->second);
        originals.erase(found);
        break;
      }
}

}  // namespace

std::map<std::string, at::Tensor> with_prefix(const Checkpoint& checkpoint, const std::string& prefix) {
  std::map<std::string, at::Tensor> result;
  for (auto it = checkpoint.tensors.lower_bound(prefix); it != checkpoint.tensors.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    result.emplace_hint(result.end(), it->first.substr(prefix.size()), it->second);
  }
  return result;
}

void load_model(const Checkpoint& checkpoint, models::DetectionModel& model, bool moving_averages,
                const std::string& source) {
  std::map<std::string, at::Tensor> stored = with_prefix(checkpoint, "model/");
  if (moving_averages)
    for (const auto& [name, tensor] : with_prefix(checkpoint, "average/")) stored[name] = tensor;

  std::string differences;
  int count = 0;
  bool by_rounding = true;  // they differ in nothing but whether they are rounded to 8 bits
  const auto differs = [&](const std::string& name, const std::string& line) {
    by_rounding = by_rounding && nn::is_of_quantizer(name);
    if (++count <= 20) differences += "\n  " + line;
  };
  const auto variables = models::variables(model);
  for (const auto& [name, tensor] : variables) {
    const auto found = stored.find(name);
    if (found == stored.end())
      differs(name,
              fmt::format("{}: not in the checkpoint, the model has [{}]", name, fmt::join(tensor.sizes(), ", ")));
    else if (found->second.sizes() != tensor.sizes())
      differs(name, fmt::format("{}: [{}] in the checkpoint, [{}] in the model", name,
                                fmt::join(found->second.sizes(), ", "), fmt::join(tensor.sizes(), ", ")));
  }
  std::map<std::string, at::Tensor> left = stored;
  for (const auto& [name, tensor] : variables) left.erase(name);
  for (const auto& [name, tensor] : left)
    differs(name, fmt::format("{}: [{}] in the checkpoint, not in the model", name, fmt::join(tensor.sizes(), ", ")));
  if (count > 0 && by_rounding && left.empty() && stored.size() == variables.size()) {  // but for sizes they are there
    const bool of_channels = std::ranges::any_of(
        stored, [](const auto& item) { return nn::is_of_quantizer(item.first) && item.second.dim() > 0; });
    throw CheckpointError(
        fmt::format("{}: is of a network that was trained with one range for the weights of each {}; --set "
                    "graph_rewriter.quantization.weights_per_channel={} works with it",
                    source, of_channels ? "channel" : "layer", of_channels),
        ExitCode::kUsage);
  }
  if (count > 0 && by_rounding)
    throw CheckpointError(
        fmt::format("{}: {}", source,
                    left.empty() ? "is of a network that was trained without rounding to 8 bits; --set graph_rewriter= "
                                   "works with the float network"
                                 : "is of a network that was trained for 8 bits, by a config with graph_rewriter"),
        ExitCode::kUsage);
  if (count > 20) differences += fmt::format("\n  ... and {} more", count - 20);
  if (count > 0)
    throw CheckpointError(
        fmt::format("{}: is a checkpoint of another model; {} variables differ:{}", source, count, differences),
        ExitCode::kUsage);

  const torch::autograd::AutoGradMode no_gradients(false);
  for (const auto& [name, tensor] : variables) at::Tensor(tensor).copy_(stored.at(name));
}

Checkpoint read_for(const models::DetectionModel& model, const std::filesystem::path& file) {
  if (file.extension() == kExtension || !is_tensorflow(file)) return read(file);
  TensorFlowCheckpoint original = read_tensorflow(file);
  Checkpoint result;
  result.attributes["step"] = std::to_string(original.step);
  take_over(original.variables, model, "model/", result);
  take_over(original.averages, model, "average/", result);
  fill_counters(model, "model/", result);
  for (const auto& [name, tensor] : original.variables) {
    const std::string ours = nn::our_name(name);
    result.tensors["other/" + ours] = nn::from_tf_layout(ours, tensor);
  }
  return result;
}

int64_t load_model(const std::filesystem::path& file, models::DetectionModel& model, bool moving_averages) {
  const Checkpoint checkpoint = read_for(model, file);
  load_model(checkpoint, model, moving_averages, file.string());
  return checkpoint.number("step", 0);
}

}  // namespace osprey::checkpoint
