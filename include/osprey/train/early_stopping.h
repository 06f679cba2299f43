#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "osprey/checkpoint/directory.h"

namespace osprey::train {

/// Finds out when the evaluations of a run no longer improve on a metric, or have reached what was wanted.
///
/// All values lie in <model_dir>/early_stopping.json, so that a run that was killed and goes on ends where it would
/// have ended.
class EarlyStopping {
 public:
  /// Reads what evaluations up to `step`, where the run goes on, have given, and forgets later ones, which are made
  /// once more. Values of another metric do not count.
  ///
  /// patience  evaluations in a row without an improvement after which the run ends; 0: it does not end for that
  /// target    a value, or a better one, after which the run ends
  /// throws    DataError where what is left cannot be written
  EarlyStopping(const std::filesystem::path& model_dir, checkpoint::MetricGoal goal, int64_t patience, int64_t step,
                std::optional<double> target = {});

  /// The evaluation after `step` has given `value`. One that is not a number is no improvement.
  ///
  /// throws  DataError where that cannot be written
  void add(int64_t step, double value);
  bool has(int64_t step) const { return values_.contains(step); }
  const std::string& metric() const { return goal_.metric; }

  /// Why the run ends, with the value that decides and its step; "" while it goes on.
  std::string reason() const;

 private:
  void write() const;

  std::filesystem::path file_;
  checkpoint::MetricGoal goal_;
  int64_t patience_;
  std::optional<double> target_;
  std::map<int64_t, double> values_;  ///< by step
};

}  // namespace osprey::train
