#pragma once
#include <functional>
#include <string>

#include "osprey/train/hook.h"

namespace osprey::train {

/// Says of each evaluation inside a run when it was done and what it gave, so that the time to an accuracy can be read
/// off: the step, `epoch`, `wall_seconds` since the training began (evaluations and checkpoints included),
/// `evaluation_seconds` of this one, and `metrics` by tag, null where one has no value. A JSON object per line.
class EvaluationHook final : public Hook {
 public:
  /// steps_per_epoch  0: it is not known, and no epoch is named
  /// started          when the training began, by `now` of base/clock.h
  EvaluationHook(double steps_per_epoch, double started, std::function<void(const std::string& line)> write)
      : steps_per_epoch_(steps_per_epoch), started_(started), write_(std::move(write)) {}

  void after_step(const StepEvent&) override {}
  void after_evaluation(const EvaluationEvent& event) override;

 private:
  double steps_per_epoch_, started_;
  std::function<void(const std::string& line)> write_;
};

}  // namespace osprey::train
