#pragma once
#include <cstdint>
#include <memory>

#include "osprey/config/registry.h"
#include "osprey/kernels/parameter_update.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// Moves parameters against their gradients, with TensorFlow's arithmetic.
///
/// Weight decay is not its business: regularisation is part of the loss. The order of a step is
///
///     model loss -> backward -> pipeline.finish() -> pipeline.apply() -> optimizer.update(step)
///     -> moving_average.update(step)
///
/// A kind of optimizer is a rule of kernels/parameter_update.h, the slots that it keeps, and the numbers of each
/// update.
class Optimizer {
 public:
  using Registry = config::Registry<Optimizer, NamedTensors, Arithmetic>;

  /// What is carried from step to step of every parameter: TensorFlow's name of it ("Momentum", "Adam_1"), and what it
  /// starts with.
  struct Slot {
    std::string name;
    double start = 0;
  };

  /// parameters  float32 leaves that receive gradients; frozen ones are left out by the caller
  Optimizer(NamedTensors parameters, std::unique_ptr<LearningRate> learning_rate, kernels::UpdateRule rule,
            std::vector<Slot> slots);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update from the gradients in the parameters' `.grad()`, which stay as they are. A parameter without gradient
  /// is left alone, and so is its state. Does not wait for the device.
  /// step     how many updates were made before
  /// proceed  scalar bool on the device of the parameters: false, nothing is changed; undefined: true
  void update(int64_t step, const at::Tensor& proceed = {}) {
    prepare(step);
    apply(proceed);
  }

  /// The two halves of an update: what the host works out, put where the device reads it, and what the device does. The
  /// second half may be recorded and repeated, each time after the first.
  void prepare(int64_t step);
  void apply(const at::Tensor& proceed);

  /// Everything beside the parameters that the next update depends on, under "<parameter>.<slot>" and, for what all
  /// parameters share, the bare name of the slot. The tensors are live: a checkpoint is restored by copying into them.
  virtual NamedTensors state() const;

  const NamedTensors& parameters() const { return parameters_; }
  const LearningRate& learning_rate() const { return *learning_rate_; }

  /// From now on every rate of the schedule is multiplied by this, and by no other factor; 1 at first.
  void scale_learning_rate(double factor) { rate_factor_ = factor; }
  double learning_rate_factor() const { return rate_factor_; }
  /// The rate of the update that is made when `step` updates have been made before.
  double learning_rate_at(int64_t step) const { return rate_factor_ * learning_rate_->at(step); }

 protected:
  /// The numbers of the rule for an update at this learning rate.   step  as above
  virtual std::vector<double> numbers(double learning_rate, int64_t step) const = 0;

  /// What an update does to what all parameters share, on the device, before the parameters are moved.
  /// numbers  those of the rule, which may be changed for this update
  /// proceed  as above
  virtual void share_update(const at::Tensor& /*numbers*/, const at::Tensor& /*proceed*/) {}

 private:
  NamedTensors parameters_;
  std::unique_ptr<LearningRate> learning_rate_;
  double rate_factor_ = 1;
  kernels::UpdateRule rule_;
  std::vector<Slot> slots_;
  std::vector<std::vector<at::Tensor>> kept_;  ///< by slot and parameter
  at::Tensor numbers_;                         ///< of the update that is next, on the device of the parameters
};

}  // namespace osprey::optim
