#pragma once
#include <cstdint>

#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// Exponential moving averages of parameters: average = d * average + (1 - d) * parameter after every update.
///
/// kTf1: starts at the parameters' initial values, d is `decay` throughout.
/// kTf2: starts at zero, d = min(decay, (1 + t) / (10 + t)) after t updates.
class MovingAverage {
 public:
  /// parameters  those that are trained: a frozen parameter has no average, and keeps its value in a swap
  /// decay       in [0, 1]
  MovingAverage(NamedTensors parameters, double decay, Arithmetic arithmetic);

  /// To be called after the optimizer's update; does not wait for the device.
  /// step     how many updates were made before that one
  /// proceed  as the optimizer's
  void update(int64_t step, const at::Tensor& proceed = {}) {
    prepare(step);
    apply(proceed);
  }
  /// Its halves, as the optimizer's.
  void prepare(int64_t step);
  void apply(const at::Tensor& proceed);

  /// Exchanges parameters and averages in place, bit for bit; a second call undoes it.
  void swap();

  /// Averages as "<parameter>.ExponentialMovingAverage"; live, as the state of an optimizer.
  NamedTensors state() const;

  /// Sets every average to the present value of its parameter: where a run starts from a checkpoint (kTf1 only; kTf2's
  /// averages are re-started at zero).
  void reset();

 private:
  NamedTensors parameters_;
  double decay_;
  Arithmetic arithmetic_;
  std::vector<at::Tensor> averages_;
  at::Tensor rate_;  ///< [1] 1 - decay of the update that is next
};

/// Parameters hold their averages as long as this lives: for evaluation and export.
///
///     AveragesInPlace scope(moving_average);  // null: nothing happens
class AveragesInPlace {
 public:
  explicit AveragesInPlace(MovingAverage* average) : average_(average) {
    if (average_ != nullptr) average_->swap();
  }
  ~AveragesInPlace() {
    if (average_ != nullptr) average_->swap();
  }
  AveragesInPlace(const AveragesInPlace&) = delete;
  AveragesInPlace& operator=(const AveragesInPlace&) = delete;

 private:
  MovingAverage* average_;
};

}  // namespace osprey::optim
