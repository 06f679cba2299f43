#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "osprey/base/clock.h"
#include "osprey/train/hook.h"
#include "osprey/train/log_record.h"

namespace osprey::train {

/// Every `every_n` steps, and after the last one, makes a LogRecord and gives it to whoever asked for it. A device need
/// not wait for that: its numbers come with the next step.
class ProgressHook final : public Hook {
 public:
  using Sink = std::function<void(const LogRecord&)>;
  /// started  when the training began, by `now` of base/clock.h
  ProgressHook(int64_t every_n, int64_t num_steps, std::vector<Sink> sinks, double started = now());
  ~ProgressHook() override;

  void after_step(const StepEvent& event) override;
  void after_evaluation(const EvaluationEvent& event) override;
  void after_going_back(const TrainState& state) override;

 private:
  struct Pending;
  void write();  ///< the pending record, where there is one

  int64_t every_n_, num_steps_;
  std::vector<Sink> sinks_;
  double started_;
  std::unique_ptr<Pending> pending_;
  int64_t steps_ = 0, images_ = 0;  // since the last record, like the times
  double seconds_ = 0, data_seconds_ = 0;
};

/// Writes the log line to the log.
void write_log_line(const LogRecord& record);

}  // namespace osprey::train
