#include "train/chronicle.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "osprey/base/memory.h"
#include "train/memory_advice.h"
#include "train/step_graph.h"

namespace osprey::train {
namespace {

/// Says after the first step, or after that which is recorded, what memory the steps take; all others take as much.
class MemoryHook final : public Hook {
 public:
  /// alone  no other replica has a share of the memory that is left
  MemoryHook(const Assembly& assembly, bool alone) : assembly_(assembly), alone_(alone) {}

  void after_step(const StepEvent& event) override {
    const int64_t before = assembly_.cuda_graph != StepRecording::kOff ? StepGraph::kStepsBefore : 0;
    if (steps_++ != before) return;
    const int64_t peak = peak_memory(assembly_), per_batch = std::max<int64_t>(1, peak - state_memory(assembly_));
    std::string fits;
    if (alone_ && event.batch.images.is_cpu() && available_bytes() > 0)
      fits = fmt::format(
          "; batches of up to about {} images would fit",
          static_cast<int64_t>(static_cast<double>(event.batch.size()) *
                               (1 + static_cast<double>(available_bytes()) / static_cast<double>(per_batch))));
    SPDLOG_INFO("Peak memory after the first {}: {:.2f} GiB for a batch of {}{}", before > 0 ? "steps" : "step",
                static_cast<double>(peak) / (1 << 30), event.batch.size(), fits);
  }

 private:
  const Assembly& assembly_;
  bool alone_;
  int64_t steps_ = 0;
};

}  // namespace

Chronicle::Chronicle(const Assembly& assembly, const std::filesystem::path& folder, const Scope& scope, double started,
                     std::optional<double>& began)
    : events_((folder / "train").string()),
      metrics_(folder / "metrics.jsonl", assembly.state.step),
      memory_(std::make_unique<MemoryHook>(assembly, scope.alone)),
      summaries_(events_, assembly.train().save_summaries_secs(), assembly.names) {
  if (scope.evaluates) evaluations_.emplace(folder / "evaluations.jsonl", assembly.state.step);
  if (!began)
    began = started - std::max(metrics_.last("wall_seconds"), evaluations_ ? evaluations_->last("wall_seconds") : 0);
  progress_.emplace(assembly.train().log_every_n_steps(), scope.num_steps,
                    std::vector<ProgressHook::Sink>{
                        write_log_line, [this](const LogRecord& record) { metrics_.write(metrics_line(record)); },
                        [this](const LogRecord& record) { write_scalars(events_, record); }},
                    *began);
  hooks_ = {memory_.get(), &*progress_, &summaries_};
  if (const uint32_t every = assembly.train().checkpoint().weights_every_n_steps(); every > 0)
    hooks_.push_back(&weights_.emplace(folder / "weights", every));
  if (!evaluations_) return;
  const auto steps_per_epoch = static_cast<double>(scope.num_examples) / static_cast<double>(assembly.batch_size);
  evaluated_.emplace(steps_per_epoch, *began, [this](const std::string& line) { evaluations_->write(line); });
  hooks_.push_back(&*evaluated_);
}

}  // namespace osprey::train
