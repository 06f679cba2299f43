#pragma once
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osprey/train/hook.h"
#include "osprey/train/log_record.h"

namespace osprey::train {

/// Every `every_n` steps, and after the last one, makes a LogRecord and gives it to whoever asked for it. A device need
/// not wait for that: its numbers come with the next step.
class ProgressHook final : public Hook {
 public:
  using Sink = std::function<void(const LogRecord&)>;
  ProgressHook(int64_t every_n, int64_t num_steps, std::vector<Sink> sinks);
  ~ProgressHook() override;

  void after_step(const StepEvent& event) override;
  void after_evaluation(const TrainState& state, const std::map<std::string, double>& metrics) override;
  void after_going_back(const TrainState& state) override;

 private:
  struct Pending;
  void write();  ///< the pending record, where there is one

  int64_t every_n_, num_steps_;
  std::vector<Sink> sinks_;
  std::unique_ptr<Pending> pending_;
  int64_t steps_ = 0, images_ = 0;  // since the last record, like the times
  double seconds_ = 0, data_seconds_ = 0;
};

/// Writes the log line to the log.
void write_log_line(const LogRecord& record);

/// metrics.jsonl of a model directory, one object per record.
class MetricsFile {
 public:
  /// Opens the file; lines of later steps than `step`, which a killed run left behind, are removed, as the steps are
  /// made once more.
  /// throws DataError naming the file where it cannot be written
  MetricsFile(const std::filesystem::path& file, int64_t step);

  /// throws DataError where the line cannot be written
  void write(const LogRecord& record);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace osprey::train
