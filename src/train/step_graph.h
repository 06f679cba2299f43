#pragma once
#include <memory>

#include "osprey/train/step.h"

namespace osprey::train {

/// Training steps on a GPU, one of which is recorded as a CUDA graph and then repeated: the host starts one thing
/// instead of thousands. What a step does, and its numbers, are those of `train_step`; its results lie in the same
/// tensors every time.
class StepGraph {
 public:
  /// None of the arguments may move while this lives.
  /// required  whether a step that cannot be recorded is an error
  /// throws    ConfigError where this build cannot record
  StepGraph(TrainState& state, optim::GradientPipeline& gradients, const StepOptions& options, bool required);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  static constexpr int kStepsBefore = 3;  ///< that run one by one, so that every library has chosen its ways

  /// After the first steps one is recorded. Where that fails and is not required, it is said once and the steps go on
  /// one by one.
  /// batch   on the GPU, always of the same shapes
  /// throws  as `train_step`; where a step has to be recorded, also where memory does not suffice for that, and
  ///         ConfigError where it cannot be
  StepResult step(const Batch& batch);

  /// Kernels that a recorded step launches; 0 before one is recorded.
  int64_t kernels() const;

  static bool available();

 private:
  struct Recording;
  void record(const Batch& batch);
  TrainState& state_;
  optim::GradientPipeline& gradients_;
  StepOptions options_;
  [[maybe_unused]] bool required_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace osprey::train
