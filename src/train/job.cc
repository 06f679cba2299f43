#include "osprey/train/job.h"

#include <google/protobuf/text_format.h>

#include <utility>

#include "osprey/base/error.h"
#include "osprey/base/logging.h"
#include "osprey/train/run_directory.h"
#include "osprey/train/signals.h"
#include "train/assembly.h"
#include "train/run_info.h"
#include "train/start.h"
#include "train/stretch.h"

namespace osprey::train {
namespace {

/// Bytes of one checkpoint of the state.
int64_t checkpoint_bytes(const TrainState& state) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : snapshot(state).tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

/// Makes sure that all replicas train the same on the same, and gives them what the chief has found in the model
/// directory.
void take_state_of_chief(Replicas& replicas, Assembly& assembly, const JobOptions& options) {
  require_same(replicas, "version of Osprey", OSPREY_VERSION);
  proto::TrainEvalPipelineConfig config = *assembly.pipeline.message;
  // Files may lie elsewhere on another machine.
  config.mutable_train_input_reader()->clear_label_map_path();
  config.mutable_train_input_reader()->clear_tf_record_input_reader();
  config.mutable_train_input_reader()->clear_annotation_input_reader();
  config.clear_eval_input_reader();
  config.mutable_train_config()->clear_fine_tune_checkpoint();
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  require_same(replicas, "config", text);
  if (!options.use_fake_data)
    require_same(replicas, "set of training data", data_fingerprint(assembly.train_reader(), "train_input_reader"));
  const auto& evaluated = assembly.pipeline.message->eval_input_reader();
  if (!options.use_fake_data && !evaluated.empty())
    require_same(replicas, "set of evaluation data", data_fingerprint(evaluated[0], "eval_input_reader[0]"));

  TrainState& state = assembly.state;
  SkippedBatches& skipped = state.skipped;
  const std::vector<int64_t*> counts{&state.step,    &state.data_position, &state.rollbacks,
                                     &skipped.total, &skipped.in_a_row,    &skipped.last_step};
  at::Tensor numbers = at::empty({static_cast<int64_t>(counts.size())}, at::kLong);
  for (size_t i = 0; i < counts.size(); ++i) numbers[static_cast<int64_t>(i)] = *counts[i];
  at::Tensor factor = at::full({}, state.optimizer->learning_rate_factor(), at::kDouble);
  std::vector<at::Tensor> tensors{numbers, factor};
  for (const auto& [name, tensor] : snapshot(state).tensors) tensors.push_back(tensor);
  replicas.copy_from_chief(tensors);
  for (size_t i = 0; i < counts.size(); ++i) *counts[i] = numbers[static_cast<int64_t>(i)].item<int64_t>();
  state.optimizer->scale_learning_rate(factor.item<double>());
}

}  // namespace

RunOutcome train(config::Pipeline pipeline, const JobOptions& options) {
  if (options.model_dir.empty()) throw ConfigError("--model_dir is needed");
  const SignalGuard signals;
  Assembly assembly = assemble(std::move(pipeline), options);
  Replicas* const replicas = options.replicas;
  const bool is_chief = replicas == nullptr || replicas->is_chief();
  const std::filesystem::path folder = options.model_dir;
  std::optional<RunDirectory> directory;
  if (is_chief) {
    directory.emplace(folder, 2 * checkpoint_bytes(assembly.state));
    log_to_file((folder / "train.log").string());
    start_from(assembly, folder);
  }
  std::optional<double> began;
  while (true) {
    if (replicas != nullptr) take_state_of_chief(*replicas, assembly, options);
    const RunOutcome outcome = run_from_here(assembly, options, began);
    if (!outcome.roll_back_past) return outcome;
    if (is_chief) roll_back(assembly, folder, *outcome.roll_back_past);
  }
}

}  // namespace osprey::train
