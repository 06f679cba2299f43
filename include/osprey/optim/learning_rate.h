#pragma once
#include <cstdint>
#include <optional>

#include "osprey/config/registry.h"

namespace osprey::optim {

/// A learning-rate schedule. Values are those of the original's float32 arithmetic.
class LearningRate {
 public:
  using Registry = config::Registry<LearningRate>;
  virtual ~LearningRate() = default;

  /// The rate of the update that is made when `step` updates have been made before.
  virtual double at(int64_t step) const = 0;

  /// The step from which on the rate is zero for good; nothing for schedules that never end. A run that would begin
  /// there learns nothing: the trainer refuses it.
  virtual std::optional<int64_t> end() const { return std::nullopt; }

  /// Whether an update at `step` would have no effect because the schedule is over.
  bool is_past_end(int64_t step) const { return end() && step >= *end(); }
};

}  // namespace osprey::optim
