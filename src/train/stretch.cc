#include "train/stretch.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <utility>

#include "osprey/base/atomic_file.h"
#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/config/effective.h"
#include "osprey/train/nan_report.h"
#include "osprey/train/signals.h"
#include "train/chronicle.h"
#include "train/evaluation.h"
#include "train/memory_advice.h"
#include "train/run_arithmetic.h"
#include "train/run_info.h"
#include "train/start.h"
#include "train/training_source.h"

namespace osprey::train {
namespace {

void save_description(const Assembly& assembly, const JobOptions& options, const std::filesystem::path& folder,
                      const data::BatchSource& source, int64_t num_steps) {
  write_whole(folder / "pipeline.config", config::effective_text(*assembly.pipeline.message));
  if (assembly.label_map) write_whole(folder / "label_map.pbtxt", config::label_map_text(*assembly.label_map));
  write_whole(folder / "run_info.json", run_info(assembly, options, source, num_steps));
}

/// Says what of config and data is another than when the run was last started: it goes on with what is given now.
void tell_changes(const Assembly& assembly, const JobOptions& options, const std::filesystem::path& folder) {
  if (assembly.state.step == 0 || !std::filesystem::exists(folder / "pipeline.config")) return;
  try {
    const config::Pipeline before = config::load_pipeline((folder / "pipeline.config").string());
    std::istringstream lines(config::differences(*before.message, *assembly.pipeline.message));
    constexpr int kShown = 10;
    int count = 0;
    for (std::string line; std::getline(lines, line);)
      if (++count <= kShown) SPDLOG_INFO("other than when it was last started: {}", line);
    if (count > kShown) SPDLOG_INFO("and {} more; config_diff shows them", count - kShown);
  } catch (const ConfigError&) {  // of another release; it is about to be written anew
  }
  if (options.use_fake_data) return;
  const std::string data = saved_fingerprint(folder / "run_info.json");
  if (!data.empty() && data != data_fingerprint(assembly.train_reader(), "train_input_reader"))
    SPDLOG_WARN(
        "other than when it was last started: the training records or annotations, by the names and sizes of their "
        "files");
}

TrainerOptions trainer_options(const Assembly& assembly, int64_t num_steps, int64_t num_examples) {
  const auto& eval = assembly.pipeline.message->eval_config();
  const auto steps = [&](double epochs) { return steps_for(epochs, num_examples, assembly.batch_size); };
  TrainerOptions result;
  result.num_steps = num_steps;
  result.checkpoint_every_n = assembly.train().checkpoint().every_n_steps();
  result.checkpoint_every_secs = assembly.train().checkpoint().every_n_secs();
  result.eval_every_n = eval.has_eval_every_n_epochs() ? steps(eval.eval_every_n_epochs()) : eval.eval_every_n_steps();
  result.eval_from = steps(eval.eval_from_epoch());
  result.look_every_n = assembly.train().log_every_n_steps();
  const proto::OnNan& on_nan = assembly.train().on_nan();
  if (on_nan.policy() == proto::OnNan::ROLLBACK) result.max_rollbacks = on_nan.max_rollbacks();
  if (on_nan.policy() == proto::OnNan::SKIP_BATCH) result.max_skipped_in_a_row = on_nan.max_skipped_in_a_row();
  result.cuda_graph = assembly.cuda_graph;
  result.step = assembly.step;
  result.attributes = {{"precision", name_of(assembly.step.precision)},
                       {"threads", std::to_string(at::get_num_threads())}};
  return result;
}

checkpoint::Retention retention_of(const proto::TrainConfig& train) {
  const proto::CheckpointConfig& checkpoint = train.checkpoint();
  const bool goes_back = train.on_nan().policy() == proto::OnNan::ROLLBACK;  // to one that `rollback_target` takes
  return {.keep_last = checkpoint.keep_last(),
          .keep_every_n_hours = train.keep_checkpoint_every_n_hours(),
          .keep_every_n_steps = checkpoint.keep_every_n_steps(),
          .regular_every_n_steps = goes_back ? checkpoint.every_n_steps() : 0};
}

std::string at_end_text(int64_t step, int64_t num_steps) {
  return fmt::format("already at step {} >= num_steps {}", step, num_steps);
}

/// Whether the evaluation of the last step, where the run is found, was lost.
/// last  that of the run; the chief alone has it, and tells all
bool lacks_last_evaluation(const Assembly& assembly, const JobOptions& options, int64_t num_steps,
                           const std::optional<LastEvaluation>& last) {
  const bool is_due = assembly.state.step == num_steps && !options.use_fake_data &&
                      !assembly.pipeline.message->eval_input_reader().empty();
  if (!is_due) return false;
  const bool lacks = last && !last->is_of(num_steps);
  return options.replicas != nullptr ? options.replicas->largest(lacks ? 1 : 0) != 0 : lacks;
}

/// What `keep_best` or `early_stopping` asks for.
template <class Config>
checkpoint::MetricGoal goal_of(const Config& config, double min_delta = 0) {
  const bool is_loss = config.metric().starts_with("Loss/");
  const bool higher = config.has_mode() ? config.mode() == proto::CheckpointConfig::KeepBest::MAX : !is_loss;
  if (higher && is_loss) SPDLOG_WARN("{}: mode is MAX, so that a larger loss is better", config.metric());
  return {config.metric(), higher, min_delta};
}

/// Whether the run has ended early before; the chief alone knows, and tells all.
bool stopped_before(const std::optional<EarlyStopping>& early_stopping, Replicas* replicas) {
  const std::string reason = early_stopping ? early_stopping->reason() : "";
  if (!reason.empty())
    SPDLOG_INFO(
        "stopped early before: {}; nothing to do (a larger train_config.early_stopping.patience_evaluations, a better "
        "target, or no early_stopping, goes on)",
        reason);
  return replicas != nullptr ? replicas->largest(reason.empty() ? 0 : 1) != 0 : !reason.empty();
}

/// "5200 steps in 4m25s, 8s of it evaluations; 9m10s in all"
std::string duration_of(const RunOutcome& outcome, double seconds, double before) {
  std::string text = fmt::format("{} steps in {}", outcome.steps, duration_text(seconds));
  if (outcome.evaluation_seconds > 0)
    text += fmt::format(", {} of it evaluations", duration_text(outcome.evaluation_seconds));
  if (before > 0) text += fmt::format("; {} in all", duration_text(before + seconds));
  return text;
}

}  // namespace

RunOutcome run_from_here(Assembly& assembly, const JobOptions& options, std::optional<double>& began) {
  const double started = now();
  TrainState& state = assembly.state;
  Replicas* const replicas = options.replicas;
  const bool is_chief = replicas == nullptr || replicas->is_chief();
  const std::filesystem::path folder = options.model_dir;
  const auto source = training_source(assembly, options);
  const int64_t num_steps = total_steps(assembly, source->num_examples());
  std::optional<LastEvaluation> last_evaluation;
  if (is_chief) last_evaluation.emplace(folder, state.step);
  const bool at_end = num_steps > 0 && state.step >= num_steps;
  if (at_end && !lacks_last_evaluation(assembly, options, num_steps, last_evaluation)) {
    if (is_chief) SPDLOG_INFO("{}, nothing to do", at_end_text(state.step, num_steps));
    return {0, /*already_done=*/true};
  }
  std::optional<EarlyStopping> early_stopping;
  if (is_chief && assembly.train().has_early_stopping()) {
    const proto::EarlyStopping& config = assembly.train().early_stopping();
    const bool has_patience = config.has_patience_evaluations() || !config.has_target();
    early_stopping.emplace(folder, goal_of(config, config.min_delta()),
                           has_patience ? config.patience_evaluations() : 0, state.step,
                           config.has_target() ? std::optional(config.target()) : std::nullopt);
    if (options.use_fake_data)
      SPDLOG_WARN("early_stopping: made-up pictures are not evaluated, so nothing stops early");
  }
  if (stopped_before(early_stopping, replicas)) return {0, /*already_done=*/true, /*stopped_early=*/true};
  if (!at_end) check_schedule(state.optimizer->learning_rate(), state.step, num_steps);
  source->seek(state.data_position);

  TrainerParts parts;
  parts.state = &state;
  parts.source = source.get();
  parts.gradients = assembly.gradients.get();
  parts.signal = SignalGuard::received;
  parts.replicas = replicas;
  parts.memory_advice = [&](const Batch& batch) {
    const AloneScope alone(assembly, replicas);
    return memory_advice(*state.model, batch, assembly.step, replicas != nullptr ? replicas->size() : 1);
  };
  if (!options.use_fake_data) parts.evaluate = evaluation_of(assembly, folder, replicas);
  if (!is_chief) {
    replicas->meet();  // the chief has more to prepare
    return run(parts, trainer_options(assembly, num_steps, source->num_examples()));
  }

  tell_changes(assembly, options, folder);
  save_description(assembly, options, folder, *source, num_steps);
  if (at_end) SPDLOG_INFO("{}; its evaluation, which was lost, is made now", at_end_text(state.step, num_steps));
  SPDLOG_INFO("{}", plan_text(num_steps, assembly.batch_size, source->num_examples()));
  SPDLOG_INFO("{}, {} threads, {}{}{}", options.device, at::get_num_threads(), name_of(assembly.step.precision),
              assembly.step.micro_batches > 1 ? fmt::format(", {} parts per batch", assembly.step.micro_batches) : "",
              replicas != nullptr ? fmt::format(", {} replicas of {} images each", replicas->size(),
                                                assembly.batch_size / replicas->size())
                                  : "");

  const proto::TrainConfig& train = assembly.train();
  const Chronicle chronicle(assembly, folder,
                            {num_steps, source->num_examples(), parts.evaluate != nullptr, replicas == nullptr},
                            started, began);
  checkpoint::Directory checkpoints(folder, retention_of(train));
  std::optional<checkpoint::BestKeeper> best;
  if (train.checkpoint().has_keep_best()) best.emplace(folder, goal_of(train.checkpoint().keep_best()));

  parts.checkpoints = &checkpoints;
  parts.best = best ? &*best : nullptr;
  parts.early_stopping = early_stopping ? &*early_stopping : nullptr;
  parts.last_evaluation = &*last_evaluation;
  parts.hooks = chronicle.hooks();
  parts.nan_report = [&](const TrainState&, const Batch& batch, const StepResult& result) {
    const AloneScope alone(assembly, replicas);
    try {
      const NanReport report = write_nan_report(state, batch, result, {folder, assembly.names, assembly.step});
      return fmt::format("{}; the report is in {}", report.summary, report.folder.string());
    } catch (const std::exception& error) {  // the training has diverged all the same, and ends so
      SPDLOG_ERROR("the report of what is not finite could not be written: {}", error.what());
      return std::string();
    }
  };

  if (replicas != nullptr) replicas->meet();
  const RunOutcome outcome = run(parts, trainer_options(assembly, num_steps, source->num_examples()));
  if (outcome.roll_back_past) return outcome;
  if (outcome.stopped_early) note(folder / "run_info.json", "stopped_early_at", state.step);
  if (state.skipped.total > 0) note(folder / "run_info.json", "skipped_batches", state.skipped.total);
  if (source->num_skipped() > 0)
    SPDLOG_WARN("{} records were left out because they could not be used", source->num_skipped());
  SPDLOG_INFO("{} at step {} after {}",
              outcome.signal != 0 ? fmt::format("Stopped by signal {}", outcome.signal) : "Done", state.step,
              duration_of(outcome, now() - started, started - *began));
  return outcome;
}

}  // namespace osprey::train
