#include "osprey/train/trainer.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/train/watchdog.h"
#include "train/device_feed.h"
#include "train/non_finite_steps.h"
#include "train/step_graph.h"

namespace osprey::train {
namespace {

bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/// A metric that `field` of train_config names and no evaluation gives: of the losses only a step knows the names.
ConfigError no_metric(const char* field, const std::string& metric, const Metrics& metrics) {
  std::string known;
  for (const auto& [name, value] : metrics)
    if (name.starts_with("Loss/")) known += (known.empty() ? "; its losses are " : ", ") + name;
  return ConfigError(fmt::format("train_config.{}.metric: the evaluation has no metric {}{}", field, metric, known));
}

/// One call of `run`.
class Loop {
 public:
  Loop(const TrainerParts& parts, const TrainerOptions& options)
      : parts_(parts),
        options_(options),
        state_(*parts.state),
        feed_(*parts.source, state_.model->parameters().front().device()),
        non_finite_(parts, options, feed_),
        watchdog_(options.stall_seconds) {
    graph_ = new_graph();
  }

  RunOutcome run() {
    RunOutcome outcome;
    outcome.already_done = done();
    const bool lacks = lacks_evaluation();
    if (done() && !lacks) return outcome;
    look_around();
    if (signal_ != 0) {  // it came before the first step
      save();
      wait_for_chief();
    } else if (state_.step == 0 && options_.max_rollbacks > 0) {  // so that there is something to go back to
      save();
      wait_for_chief();
    } else if (lacks) {
      evaluate();
    }
    const int64_t before = state_.step;
    while (!done() && signal_ == 0) {
      step();
      if (bad_batch_) break;
      const bool saves = wants_checkpoint();
      const bool evaluates = signal_ == 0 && wants_evaluation(saves);
      if (saves) save();
      if (evaluates) evaluate();
      if (saves && !evaluates) wait_for_chief();
      if (saves) saved_at_ = now();
    }
    if (signal_ == 0 && !bad_batch_) look_around();  // it came while the last checkpoint was written
    outcome.steps = state_.step - before;
    outcome.roll_back_past = bad_batch_;
    outcome.signal = signal_;
    outcome.stopped_early = stopped_;
    outcome.evaluation_seconds = evaluation_seconds_;
    if (graph_) outcome.kernels_per_step = graph_->kernels();
    watchdog_.enter("", 0);
    return outcome;
  }

 private:
  bool done() const { return stopped_ || (options_.num_steps > 0 && state_.step >= options_.num_steps); }
  /// Whether it is so on any replica.
  bool any(bool here) const { return parts_.replicas != nullptr ? parts_.replicas->largest(here ? 1 : 0) != 0 : here; }
  /// The signal that any replica has got, and whether any finds a checkpoint overdue; all of them look at the same
  /// moment and act after the same step.
  void look_around() {
    signal_ = parts_.signal ? parts_.signal() : 0;
    const double seconds = options_.checkpoint_every_secs;
    overdue_ = seconds > 0 && now() - saved_at_ >= seconds;
    if (parts_.replicas == nullptr) return;
    signal_ = static_cast<int>(parts_.replicas->largest(signal_));
    if (seconds > 0) overdue_ = any(overdue_);
  }
  bool wants_checkpoint() const {
    return done() || signal_ != 0 || overdue_ || due(state_.step, options_.checkpoint_every_n);
  }
  /// saves  whether a checkpoint is written now
  bool wants_evaluation(bool saves) const {
    if (!parts_.evaluate) return false;
    if (done()) return true;
    return state_.step >= options_.eval_from &&
           (options_.eval_every_n > 0 ? due(state_.step, options_.eval_every_n) : saves);
  }
  /// Steps between evaluations; 0 where seconds decide.
  int64_t evaluation_rhythm() const {
    return options_.eval_every_n > 0 ? options_.eval_every_n : options_.checkpoint_every_n;
  }
  void wait_for_chief() {
    watchdog_.enter("", 0);
    if (parts_.replicas != nullptr) parts_.replicas->meet();
  }

  void step() {
    const double started = now();
    watchdog_.enter("waiting for data", state_.step);
    const std::optional<Batch> batch = feed_.next();
    if (!batch)
      throw DataError(fmt::format("the training data ended after batch {}, before num_steps", state_.data_position));
    const Batch& here = *batch;
    watchdog_.enter("in a step", state_.step);
    StepResult result = make_step(here);
    watchdog_.enter("waiting for data", state_.step);
    if (!done()) feed_.fetch_ahead();
    watchdog_.enter("in a step", state_.step);
    look_around();
    const bool at_once = wants_checkpoint() || wants_evaluation(/*saves=*/false);
    if (!non_finite_.all_made(result, at_once) && !left_out(here, result)) return;
    watchdog_.enter("writing logs", state_.step);
    const int64_t replicas = parts_.replicas != nullptr ? parts_.replicas->size() : 1;
    // The evaluation may find that it was the last.
    const bool may_stop = parts_.early_stopping != nullptr && wants_evaluation(wants_checkpoint());
    const StepEvent event{state_,
                          result,
                          here,
                          here.size() * replicas,
                          feed_.source_seconds(),
                          now() - started,
                          done() || signal_ != 0 || may_stop};
    for (Hook* hook : parts_.hooks) hook->after_step(event);
  }

  /// Whether this step, the first that could not be made, is left out and counts; else the state has gone back.
  bool left_out(const Batch& batch, StepResult& result) {
    const auto next = non_finite_.handle(batch, result, [this] {
      watchdog_.enter("", 0);
      graph_.reset();
    });
    if (next == NonFiniteSteps::Next::kRollBack) bad_batch_ = state_.data_position;
    if (!graph_ && !bad_batch_) graph_ = new_graph();
    if (next == NonFiniteSteps::Next::kGoOn) return true;
    for (Hook* hook : parts_.hooks) hook->after_going_back(state_);
    return false;
  }

  StepResult make_step(const Batch& batch) {
    std::string problem;
    try {
      return graph_ ? graph_->step(batch) : train_step(state_, batch, *parts_.gradients, options_.step);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      problem = error.what();
    }
    // What the step held is free by now.
    problem.resize(std::min(problem.find('\n'), problem.size()));
    throw OutOfMemoryError(fmt::format("out of memory in step {} with {} images{} ({})", state_.step, batch.size(),
                                       parts_.memory_advice ? "; " + parts_.memory_advice(batch) : "", problem));
  }

  /// Writes the checkpoint of this step, unless it has been.
  void save() {
    if (parts_.checkpoints == nullptr || saved_step_ == state_.step) return;
    watchdog_.enter("writing a checkpoint", state_.step);
    checkpoint::Checkpoint content = snapshot(state_);
    for (const auto& [name, value] : options_.attributes) content.attributes[name] = value;
    saved_ = parts_.checkpoints->save(state_.step, content, since_1970());
    saved_step_ = state_.step;
    SPDLOG_INFO("Saved {}", saved_.string());
  }

  /// A recorded step keeps all its memory; where an evaluation lacks that, it gets it, and another step is recorded. Of
  /// several replicas one cannot start again by itself: what the others wait for has been.
  std::optional<Metrics> evaluated() {
    try {
      return parts_.evaluate(state_);
    } catch (const std::exception& error) {
      const bool recorded = graph_ && graph_->kernels() > 0;
      if (!recorded || parts_.replicas != nullptr || !is_out_of_memory(error)) throw;
    }
    SPDLOG_INFO("The evaluation takes the memory of the recorded step{}",
                done() ? "" : "; another one is recorded after it");
    graph_ = new_graph();
    const at::Device device = state_.model->parameters().front().device();
    at::getDeviceAllocator(device.type())->emptyCache();
    return parts_.evaluate(state_);
  }

  std::unique_ptr<StepGraph> new_graph() {
    if (options_.cuda_graph == StepRecording::kOff) return nullptr;
    return std::make_unique<StepGraph>(state_, *parts_.gradients, options_.step,
                                       options_.cuda_graph == StepRecording::kRequired);
  }

  /// Whether an evaluation was due where the run begins, or has ended, and was lost with the process that made it. The
  /// best checkpoint and early stopping want them all.
  bool lacks_evaluation() {
    const bool was_due = done() ? state_.step == options_.num_steps
                                : state_.step >= options_.eval_from && due(state_.step, evaluation_rhythm());
    if (!parts_.evaluate || state_.step == 0 || !was_due) return false;
    return any((parts_.last_evaluation != nullptr && !parts_.last_evaluation->is_of(state_.step)) ||
               (parts_.early_stopping != nullptr && !done() && !parts_.early_stopping->has(state_.step)));
  }

  /// Evaluates, and finds out whether the run ends here: early, or because of a signal.
  void evaluate() {
    if (parts_.best != nullptr) save();
    watchdog_.enter("", 0);  // an evaluation reports its own progress
    const double started = now();
    const std::optional<Metrics> metrics = evaluated();
    const double seconds = now() - started;
    evaluation_seconds_ += seconds;
    if (metrics) heed({state_, *metrics, seconds});
    wait_for_chief();
    stopped_ = any(stops_);
    look_around();
    if (signal_ == 0) return;
    for (Hook* hook : parts_.hooks) hook->after_going_back(state_);
    save();
    wait_for_chief();
  }

  void heed(const EvaluationEvent& event) {
    const Metrics& metrics = event.metrics;
    for (Hook* hook : parts_.hooks) hook->after_evaluation(event);
    if (parts_.best != nullptr && parts_.checkpoints != nullptr) {
      const auto found = metrics.find(parts_.best->metric());
      if (found == metrics.end()) throw no_metric("checkpoint.keep_best", parts_.best->metric(), metrics);
      if (parts_.best->offer(saved_, state_.step, found->second))
        SPDLOG_INFO("Best so far: {} = {:.4f} at step {}", found->first, found->second, state_.step);
    }
    if (parts_.early_stopping != nullptr) stop_where_due(metrics);
    if (parts_.last_evaluation != nullptr) parts_.last_evaluation->set(state_.step);
  }

  void stop_where_due(const Metrics& metrics) {
    const auto found = metrics.find(parts_.early_stopping->metric());
    if (found == metrics.end()) throw no_metric("early_stopping", parts_.early_stopping->metric(), metrics);
    // One that was made since the run ends would not have been made in a longer run, to which this one may be extended.
    if (done() && evaluation_rhythm() > 0 && !due(state_.step, evaluation_rhythm())) return;
    parts_.early_stopping->add(state_.step, found->second);
    const std::string reason = parts_.early_stopping->reason();
    if (done() || reason.empty()) return;
    stops_ = true;
    save();
    SPDLOG_INFO("Early stopping at step {}: {}", state_.step, reason);
  }

  const TrainerParts& parts_;
  const TrainerOptions& options_;
  TrainState& state_;
  DeviceFeed feed_;
  std::unique_ptr<StepGraph> graph_;
  NonFiniteSteps non_finite_;
  std::optional<int64_t> bad_batch_;  ///< sends the run back to a checkpoint
  Watchdog watchdog_;
  std::filesystem::path saved_;  ///< the checkpoint that was written last
  int64_t saved_step_ = -1;      ///< its step
  int signal_ = 0;
  double saved_at_ = now();  ///< when the last checkpoint was done with, evaluation included, or the run was begun
  bool overdue_ = false;
  double evaluation_seconds_ = 0;
  bool stops_ = false;    ///< this replica finds that the run is to stop early
  bool stopped_ = false;  ///< all have agreed on that
};

}  // namespace

RunOutcome run(const TrainerParts& parts, const TrainerOptions& options) try {
  return Loop(parts, options).run();
} catch (const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const size_t end = text.find(" does not have a deterministic implementation");
  if (end == text.npos) throw;
  throw ConfigError(fmt::format(
      "train_config.deterministic: there is no deterministic form of {}, which this run needs", text.substr(0, end)));
}

std::optional<checkpoint::Entry> rollback_target(const std::filesystem::path& model_dir, int64_t step,
                                                 int64_t every_n) {
  std::optional<checkpoint::Entry> target;
  for (const checkpoint::Entry& entry : checkpoint::list(model_dir))
    if ((every_n == 0 || due(entry.step, every_n)) && (entry.step < step || (entry.step == step && !target)))
      target = entry;
  return target;
}

int64_t steps_within(int64_t asked, int64_t batches) {
  if (batches <= 0) return asked;
  return asked > 0 ? std::min(asked, batches) : batches;
}

int64_t steps_for(double epochs, int64_t num_examples, int64_t batch_size) {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(num_examples) / static_cast<double>(batch_size)));
}

void check_schedule(const optim::LearningRate& learning_rate, int64_t first_step, int64_t num_steps) {
  if (!learning_rate.is_past_end(first_step)) return;
  throw ConfigError(fmt::format(
      "train_config.optimizer: the learning-rate schedule ends at step {}; from step {} on{} every step would "
      "train at rate 0. Give the schedule more steps, or start a new model_dir with fine_tune_checkpoint",
      *learning_rate.end(), first_step, num_steps > 0 ? fmt::format(" to {}", num_steps) : ""));
}

}  // namespace osprey::train
