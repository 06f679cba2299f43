#pragma once
#include <cstdint>
#include <memory>

#include "osprey/config/registry.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// Moves parameters against their gradients, with TensorFlow's arithmetic.
///
/// Weight decay is not its business: regularisation is part of the loss. The order of a step is
///
///     model loss -> backward -> pipeline.apply() -> optimizer.update(step) -> moving_average.update(step)
class Optimizer {
 public:
  using Registry = config::Registry<Optimizer, NamedTensors, Arithmetic>;

  /// parameters  float leaves that receive gradients; frozen ones are left out by the caller
  Optimizer(NamedTensors parameters, std::unique_ptr<LearningRate> learning_rate)
      : parameters_(std::move(parameters)), learning_rate_(std::move(learning_rate)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update from the gradients in the parameters' `.grad()`, which stay as they are. A parameter without gradient
  /// is left alone, and so is its state. Does not wait for the device. step  how many updates were made before
  void update(int64_t step);

  /// Everything beside the parameters that the next update depends on, under "<parameter>.<slot>" and, for what all
  /// parameters share, the bare name of the slot. The slots are TensorFlow's ("Momentum", "RMSProp", "Adam_1" ...). The
  /// tensors are live: a checkpoint is restored by copying into them.
  virtual NamedTensors state() const = 0;

  const NamedTensors& parameters() const { return parameters_; }
  const LearningRate& learning_rate() const { return *learning_rate_; }

 protected:
  /// The parameters of one update: those that have a gradient.
  struct Update {
    std::vector<int64_t> indices;    ///< into parameters()
    std::vector<at::Tensor> values;  ///< the parameters
    std::vector<at::Tensor> gradients;
    double learning_rate = 0;
    int64_t step = 0;
  };
  virtual void apply(const Update& update) = 0;

 private:
  NamedTensors parameters_;
  std::unique_ptr<LearningRate> learning_rate_;
};

}  // namespace osprey::optim
