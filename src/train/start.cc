#include "train/start.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/checkpoint/warm_start.h"
#include "osprey/config/resolve.h"
#include "osprey/train/class_check.h"
#include "osprey/train/run_directory.h"
#include "train/run_arithmetic.h"

namespace osprey::train {
namespace {

constexpr const char* kCure = "; to start from random weights instead: --set train_config.fine_tune_checkpoint=";

constexpr const char* kOtherModel =
    "\nanother model needs a --model_dir of its own; train_config.fine_tune_checkpoint may name this one to start from";

models::RestoreType restore_type(const config::ConfigNode<proto::TrainConfig>& train) {
  const std::string type = config::fine_tune_checkpoint_type(*train);
  if (type == "classification") return models::RestoreType::kClassification;
  if (type == "detection") return models::RestoreType::kDetection;
  if (type == "full") return models::RestoreType::kFull;
  train.fail("fine_tune_checkpoint_type", fmt::format("must be classification, detection or full, got '{}'", type));
}

void warn_of_changes(const checkpoint::Checkpoint& content, const Assembly& assembly) {
  const int64_t threads = content.number("threads", at::get_num_threads());
  if (threads != at::get_num_threads())
    SPDLOG_WARN(
        "the checkpoint was written with {} threads, now there are {}: the run goes on, but not bit for bit as it "
        "would have",
        threads, at::get_num_threads());
  const auto precision = content.attributes.find("precision");
  if (precision != content.attributes.end() && precision->second != name_of(assembly.step.precision))
    SPDLOG_WARN("the checkpoint was written in {}, the run goes on in {}", precision->second,
                name_of(assembly.step.precision));
}

/// Refuses to take the weights of one class for another's.
void refuse_other_classes(const Assembly& assembly, const std::filesystem::path& model_dir) {
  const std::filesystem::path file = model_dir / "label_map.pbtxt";
  if (!assembly.label_map || !std::filesystem::exists(file)) return;
  for (const config::LabelMap::Item& before : config::load_label_map(file.string()).items) {
    const config::LabelMap::Item* const now = assembly.label_map->find(std::string_view(before.name));
    if (now != nullptr && now->name == before.name && now->id != before.id)
      throw ConfigError(fmt::format(
          "class '{}' has id {}, but had id {} when this run was started: weights of one class would be taken for "
          "another's. Set train_input_reader.label_map_path to {}",
          before.name, now->id, before.id, file.string()));
  }
}

void resume(Assembly& assembly, const std::filesystem::path& model_dir, const checkpoint::Entry& entry) {
  const std::string source = entry.file.string();
  const auto others = checkpoint::list(model_dir);
  try {
    const checkpoint::Checkpoint content = checkpoint::read(entry.file);
    std::vector<ClassCount> places = {
        {"model", assembly.state.model->num_classes(), "config and label map"},
        {"checkpoint", content.number("num_classes", assembly.state.model->num_classes()), source}};
    check_classes(places);
    refuse_other_classes(assembly, model_dir);
    restore(assembly.state, content, source);
    warn_of_changes(content, assembly);
  } catch (const ConfigError& error) {
    throw ConfigError(std::string(error.what()) + kOtherModel);
  } catch (const CheckpointError& error) {
    if (error.exit_code() == ExitCode::kUsage)
      throw CheckpointError(std::string(error.what()) + kOtherModel, error.exit_code());
    if (error.exit_code() != ExitCode::kData || others.size() < 2) throw;
    throw CheckpointError(fmt::format(
        "{}; remove this file to go on from {}", error.what(),
        (others[others.size() - 1].step == entry.step ? others[others.size() - 2] : others.back()).file.string()));
  }
  SPDLOG_INFO("Resumed step {} from {}{}", assembly.state.step, source,
              assembly.train().fine_tune_checkpoint().empty() ? "" : " (fine_tune_checkpoint is not read again)");
}

}  // namespace

std::filesystem::path fine_tune_file(const Assembly& assembly) {
  try {
    return checkpoint::resolve(assembly.train().fine_tune_checkpoint());
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("train_config.fine_tune_checkpoint: {}{}", error.what(), kCure),
                          error.exit_code());
  }
}

void fine_tune(Assembly& assembly) {
  const auto train = assembly.root().child("train_config", assembly.train());
  checkpoint::WarmStartOptions options;
  options.type = restore_type(train);
  options.min_coverage = train->min_restore_coverage();
  const std::filesystem::path file = fine_tune_file(assembly);
  const checkpoint::WarmStartReport report = checkpoint::warm_start(file, *assembly.state.model, options);
  if (assembly.state.average != nullptr) assembly.state.average->reset();
  SPDLOG_INFO("Starting at step 0 from {}: {}", file.string(), report.text());
}

void start_from(Assembly& assembly, const std::filesystem::path& model_dir) {
  if (const auto newest = checkpoint::latest(model_dir)) return resume(assembly, model_dir, *newest);
  if (!assembly.train().fine_tune_checkpoint().empty()) {
    refuse_own_directory(model_dir, assembly.train().fine_tune_checkpoint());
    return fine_tune(assembly);
  }
  SPDLOG_INFO("Starting at step 0 from random weights (seed {})", assembly.train().seed());
}

void roll_back(Assembly& assembly, const std::filesystem::path& model_dir, int64_t past) {
  TrainState& state = assembly.state;
  const proto::OnNan& on_nan = assembly.train().on_nan();
  const int64_t from = state.step, rollbacks = state.rollbacks + 1;
  const double factor = state.optimizer->learning_rate_factor() * on_nan.rollback_learning_rate_factor();
  const auto entry = rollback_target(model_dir, from, assembly.train().checkpoint().every_n_steps());
  restore(state, checkpoint::read(entry.value().file), entry->file.string());
  state.rollbacks = rollbacks;
  state.data_position = past + 1;
  state.optimizer->scale_learning_rate(factor);
  SPDLOG_WARN("Rolled back from step {} to {} ({}), rollback {} of at most {}; the run goes on with the next batch{}",
              from, state.step, entry->file.string(), rollbacks, on_nan.max_rollbacks(),
              factor != 1 ? fmt::format(", learning rates times {:g}", factor) : "");
}

}  // namespace osprey::train
