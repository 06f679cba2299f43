#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "osprey/eval/event_writer.h"
#include "osprey/train/progress_hook.h"
#include "osprey/train/step_lines.h"
#include "osprey/train/summary_hook.h"
#include "train/assembly.h"
#include "train/evaluation_hook.h"
#include "train/weights_hook.h"

namespace osprey::train {

/// What a run writes down about itself as it goes: lines of the log, metrics.jsonl, where it is evaluated
/// evaluations.jsonl, TensorBoard's events in train/ of its folder and, where that is asked for, weights in weights/.
class Chronicle {
 public:
  struct Scope {
    int64_t num_steps;     ///< a total; 0: without end
    int64_t num_examples;  ///< of an epoch; 0: not known
    bool evaluates;
    bool alone;  ///< no other replica has a share of the machine's memory
  };
  /// started  when this stretch was, by `now` of base/clock.h
  /// began    the same of the training, less what it has taken in other processes, of which is known what the last
  ///          lines say that are kept of it; set where it is not known yet
  /// throws   DataError naming a file that cannot be written, as hooks do later
  Chronicle(const Assembly& assembly, const std::filesystem::path& folder, const Scope& scope, double started,
            std::optional<double>& began);
  Chronicle(const Chronicle&) = delete;
  Chronicle& operator=(const Chronicle&) = delete;

  const std::vector<Hook*>& hooks() const { return hooks_; }

 private:
  eval::EventWriter events_;
  StepLines metrics_;
  std::optional<StepLines> evaluations_;
  std::unique_ptr<Hook> memory_;
  SummaryHook summaries_;
  std::optional<ProgressHook> progress_;
  std::optional<EvaluationHook> evaluated_;
  std::optional<WeightsHook> weights_;
  std::vector<Hook*> hooks_;
};

}  // namespace osprey::train
