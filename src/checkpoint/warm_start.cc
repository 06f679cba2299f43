#include "osprey/checkpoint/warm_start.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <set>

#include "osprey/base/error.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/nn/quantization.h"

namespace osprey::checkpoint {
namespace {

std::string shape(const std::vector<int64_t>& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

const char* word(Restored::State state) {
  switch (state) {
    case Restored::State::kLoaded:
      return "loaded";
    case Restored::State::kShapeMismatch:
      return "shape mismatch";
    case Restored::State::kMissing:
      return "missing";
    case Restored::State::kUnused:
      return "unused";
  }
  return "";
}

/// Our variables by name -> the names that each may have in a checkpoint.
std::map<std::string, std::vector<std::string>> wanted(const models::DetectionModel& model, models::RestoreType type) {
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& [theirs, ours] : model.restore_map(type)) result[ours].push_back(theirs);
  return result;
}

}  // namespace

std::string WarmStartReport::text(size_t max_rows) const {
  std::map<Restored::State, int64_t> counts;
  for (const Restored& variable : variables) ++counts[variable.state];
  std::string result = fmt::format(
      "{} variables loaded, {} with another shape, {} missing, {} unused; {:.1f} % of {} parameters, {:.1f} % of the "
      "backbone",
      counts[Restored::State::kLoaded], counts[Restored::State::kShapeMismatch], counts[Restored::State::kMissing],
      counts[Restored::State::kUnused], parameters_total > 0 ? 100.0 * parameters_loaded / parameters_total : 100.0,
      parameters_total, 100 * backbone_coverage);
  size_t rows = 0, left = 0;
  for (const Restored& variable : variables) {
    if (variable.state == Restored::State::kLoaded) continue;
    if (rows == max_rows) {
      ++left;
      continue;
    }
    if (rows++ == 0)
      result += fmt::format("\n  {:<14}  {:<20}  {:<20}  {}", "state", "in the checkpoint", "in the model", "variable");
    const bool in_checkpoint = variable.state != Restored::State::kMissing,
               in_model = variable.state != Restored::State::kUnused;
    result += fmt::format("\n  {:<14}  {:<20}  {:<20}  {}", word(variable.state),
                          in_checkpoint ? shape(variable.checkpoint_shape) : "-",
                          in_model ? shape(variable.model_shape) : "-", variable.name);
  }
  if (left > 0) result += fmt::format("\n  ... and {} more", left);
  return result;
}

WarmStartReport warm_start(const std::filesystem::path& file, models::DetectionModel& model,
                           const WarmStartOptions& options) {
  const Checkpoint checkpoint = read_for(model, file);
  std::map<std::string, at::Tensor> stored = with_prefix(checkpoint, "model/");
  stored.merge(with_prefix(checkpoint, "other/"));
  const auto sources = wanted(model, options.type), backbone = wanted(model, models::RestoreType::kClassification);

  WarmStartReport report;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::set<std::string> used;
  int64_t backbone_wanted = 0, backbone_found = 0;
  for (const auto& [name, tensor] : models::variables(model)) {
    if (nn::is_of_quantizer(name)) continue;  // found anew
    report.parameters_total += tensor.numel();
    Restored row{Restored::State::kMissing, name, tensor.sizes().vec(), {}};
    auto found = stored.end();
    if (const auto source = sources.find(name); source != sources.end())
      for (const std::string& theirs : source->second)
        if (found == stored.end()) found = stored.find(theirs);
    if (found != stored.end()) {
      used.insert(found->first);
      row.checkpoint_shape = found->second.sizes().vec();
      row.state = row.checkpoint_shape == row.model_shape ? Restored::State::kLoaded : Restored::State::kShapeMismatch;
    }
    const bool loaded = row.state == Restored::State::kLoaded;
    if (backbone.count(name) > 0) {
      backbone_wanted += tensor.numel();
      if (loaded) backbone_found += tensor.numel();
    }
    if (loaded) {
      report.parameters_loaded += tensor.numel();
      copies.emplace_back(tensor, found->second);
    }
    report.variables.push_back(std::move(row));
  }
  for (const auto& [name, tensor] : stored)
    if (used.count(name) == 0 && !nn::is_of_quantizer(name))
      report.variables.push_back({Restored::State::kUnused, name, {}, tensor.sizes().vec()});
  if (backbone_wanted > 0)
    report.backbone_coverage = static_cast<double>(backbone_found) / static_cast<double>(backbone_wanted);

  if (report.backbone_coverage < options.min_coverage)
    throw CheckpointError(
        fmt::format("{}: only {:.1f} % of the backbone's parameters are in this checkpoint, {:.1f} % are asked for "
                    "(train_config.min_restore_coverage)\n{}",
                    file.string(), 100 * report.backbone_coverage, 100 * options.min_coverage, report.text()),
        ExitCode::kUsage);

  const torch::autograd::AutoGradMode no_gradients(false);
  for (auto& [target, value] : copies) target.copy_(value);
  return report;
}

}  // namespace osprey::checkpoint
