#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/data/loader.h"
#include "osprey/train/job.h"
#include "train/assembly.h"
#include "train/evaluation.h"
#include "train/run_arithmetic.h"
#include "train/start.h"
#include "train/step_graph.h"
#include "train/step_trace.h"
#include "train/training_source.h"
#include "train/trial.h"

namespace osprey::train {
namespace {

/// Time and waiting of every step.
class Stopwatch final : public Hook {
 public:
  /// warmup    so many steps are not measured, nor is what a device has still to do of them
  /// measured  steps after them, to which belongs what a device has still to do
  Stopwatch(int64_t warmup, int64_t measured) : warmup_(warmup), end_(warmup + measured) {}
  void after_step(const StepEvent& event) override {
    seconds.push_back(event.step_seconds);
    data_seconds.push_back(event.data_seconds);
    const auto step = static_cast<int64_t>(seconds.size());
    if (step == warmup_ || step == end_) {
      const double started = now();
      event.result.ok();
      seconds.back() += now() - started;
    }
  }
  std::vector<double> seconds, data_seconds;

 private:
  int64_t warmup_, end_;
};

/// What the losses of the last step are.
class LossesOfTheLast final : public Hook {
 public:
  void after_step(const StepEvent& event) override {
    if (!event.last) return;
    for (const NamedScalar& loss : event.result.losses)
      text += fmt::format("{}{} = {:.4g}", text.empty() ? "" : ", ", loss.name, loss.value.item<double>());
  }
  std::string text;
};

/// Traces the last steps of a run.
class TraceOfTheLast final : public Hook {
 public:
  /// before  how many steps are not traced
  /// throws  DataError where the file cannot be written
  TraceOfTheLast(int64_t before, std::string file) : before_(before), file_(std::move(file)) {
    if (!std::ofstream(file_)) throw DataError(file_ + ": the trace cannot be written there");
  }
  void after_step(const StepEvent& event) override {
    const bool begins = ++steps_ == before_;
    if (!begins && !event.last) return;
    event.result.ok();  // what a device has still to do belongs to the steps so far
    if (begins) trace_.emplace();
    if (event.last) trace_->save(file_);
  }

 private:
  int64_t before_, steps_ = 0;
  std::string file_;
  std::optional<StepTrace> trace_;
};

/// Gives the first batches of another source again and again: what is timed is the steps, not how batches are made up.
class RepeatedSource final : public data::BatchSource {
 public:
  RepeatedSource(data::BatchSource& source, int64_t batches) : source_(source) {
    for (int64_t i = 0; i < batches; ++i) batches_.push_back(source.next().value());
  }
  std::optional<Batch> next() override { return batches_[static_cast<size_t>(position_++) % batches_.size()]; }
  void seek(int64_t index) override { position_ = index; }
  int64_t position() const override { return position_; }
  int64_t num_examples() const override { return source_.num_examples(); }

 private:
  data::BatchSource& source_;
  std::vector<Batch> batches_;
  int64_t position_ = 0;
};

double sum(const std::vector<double>& values, size_t begin) {
  double result = 0;
  for (size_t i = begin; i < values.size(); ++i) result += values[i];
  return result;
}

/// Which part of the loader's work each of its stages is; nothing where it does not say.
nlohmann::ordered_json input_shares(const data::BatchSource& source) {
  const auto* records = dynamic_cast<const data::RecordSource*>(&source);
  const data::StageSeconds stages = records != nullptr ? records->stage_seconds() : data::StageSeconds();
  const double all = stages.read + stages.decode + stages.augment + stages.collate;
  if (all == 0) return {};
  return {{"read", stages.read / all},
          {"decode", stages.decode / all},
          {"augment", stages.augment / all},
          {"collate", stages.collate / all}};
}

}  // namespace

std::string benchmark(config::Pipeline pipeline, const JobOptions& options, int64_t count, const std::string& trace) {
  const double started = now();
  Assembly assembly = assemble(std::move(pipeline), options);
  // allocator, thread pools and the loader's first batches, or the recording of the step
  const int64_t warmup = assembly.cuda_graph != StepRecording::kOff ? StepGraph::kStepsBefore + 1 : 3;
  constexpr int64_t kTracedSteps = 5;
  constexpr int64_t kMadeUp = 4;  // batches; the loader of real data is timed with the steps
  std::unique_ptr<data::BatchSource> source = training_source(assembly, options), made_up;
  if (options.use_fake_data) made_up = std::make_unique<RepeatedSource>(*source, kMadeUp);
  Stopwatch stopwatch(warmup, count);
  const double ready = now();
  std::optional<TraceOfTheLast> tracer;
  std::vector<Hook*> hooks;
  if (!trace.empty() && (options.replicas == nullptr || options.replicas->is_chief()))
    tracer.emplace(warmup + count, trace);
  hooks.push_back(&stopwatch);
  if (tracer) hooks.push_back(&*tracer);
  const RunOutcome outcome = make_trial_steps(assembly, options, made_up ? *made_up : *source, hooks,
                                              warmup + count + (trace.empty() ? 0 : kTracedSteps));
  stopwatch.seconds.resize(warmup + count);
  stopwatch.data_seconds.resize(warmup + count);
  std::vector<double> measured(stopwatch.seconds.begin() + warmup, stopwatch.seconds.end());
  const double total = sum(stopwatch.seconds, warmup);
  std::sort(measured.begin(), measured.end());
  const size_t middle = measured.size() / 2;
  const double median = measured.size() % 2 == 1 ? measured[middle] : (measured[middle - 1] + measured[middle]) / 2;
  nlohmann::ordered_json result;
  result["steps"] = count;
  result["batch_size"] = assembly.batch_size;
  result["precision"] = name_of(assembly.step.precision);
  result["threads"] = at::get_num_threads();
  result["replicas"] = options.replicas != nullptr ? options.replicas->size() : 1;
  result["median_step_seconds"] = median;
  result["images_per_second"] = static_cast<double>(count * assembly.batch_size) / total;
  result["data_wait"] = sum(stopwatch.data_seconds, warmup) / total;
  if (const auto shares = input_shares(*source); !shares.empty()) result["input_shares"] = shares;
  result["peak_memory_bytes"] = peak_memory(assembly);
  if (!trace.empty()) result["traced_steps"] = kTracedSteps;
  if (outcome.kernels_per_step > 0) result["kernels_per_step"] = outcome.kernels_per_step;
  result["first_step_seconds"] = ready - started + stopwatch.seconds.front();
  return json_text(result);
}

std::string dry_run(config::Pipeline pipeline, const JobOptions& options) {
  Assembly assembly = assemble(std::move(pipeline), options);
  if (!assembly.train().fine_tune_checkpoint().empty()) fine_tune_file(assembly);
  const auto source = training_source(assembly, options);
  if (!options.use_fake_data) check_evaluation(assembly);
  const int64_t num_steps = total_steps(assembly, source->num_examples());
  int64_t parameters = 0;
  for (const at::Tensor& parameter : assembly.state.model->parameters()) parameters += parameter.numel();
  const auto size = assembly.state.model->input_size();
  Stopwatch stopwatch(/*warmup=*/0, /*measured=*/1);
  LossesOfTheLast losses;
  make_trial_steps(assembly, options, *source, {&stopwatch, &losses}, 1);
  return fmt::format(
      "plan         {}\ndata         {} images, {} left out so far\nmodel        {} parameters, input {}x{}, {} "
      "classes\n"
      "first step   {}\ntime         {:.3f} s, of which {:.3f} s waiting for the first batch\npeak memory  {:.2f} GiB "
      "above the empty "
      "program ({})\n",
      plan_text(num_steps, assembly.batch_size, source->num_examples()), source->num_examples(), source->num_skipped(),
      parameters, size[0], size[1], assembly.state.model->num_classes(), losses.text, stopwatch.seconds.front(),
      stopwatch.data_seconds.front(), static_cast<double>(peak_memory(assembly)) / (1 << 30),
      name_of(assembly.step.precision));
}

}  // namespace osprey::train
