#pragma once
#include <map>
#include <string>

#include "osprey/train/step.h"

namespace osprey::train {

/// A step as hooks see it.
struct StepEvent {
  const TrainState& state;  ///< after the step
  const StepResult& result;
  const Batch& batch;       ///< the batch of the step; on several replicas the share of this one
  int64_t images = 0;       ///< of the whole batch
  double data_seconds = 0;  ///< waited for the batch
  double step_seconds = 0;  ///< the whole step, waiting included
  bool last = false;        ///< the run ends after this step
};

/// An evaluation inside a run as hooks see it.
struct EvaluationEvent {
  const TrainState& state;                       ///< its step is where it happened
  const std::map<std::string, double>& metrics;  ///< by tag
  double seconds = 0;                            ///< that it took
};

/// Something that watches a run: it writes logs, pictures, events. It never changes the state.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void after_step(const StepEvent& event) = 0;
  virtual void after_evaluation(const EvaluationEvent& /*event*/) {}
  /// Steps after that of the state were seen though they had not been made, and come again; or the run ends here, since
  /// it has to go back further, or because of a signal in an evaluation, when no step was said to be the last.
  virtual void after_going_back(const TrainState& /*state*/) {}
};

}  // namespace osprey::train
