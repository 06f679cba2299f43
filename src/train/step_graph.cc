#include "train/step_graph.h"

#include <spdlog/spdlog.h>

#include "osprey/base/error.h"

#ifdef OSPREY_HAS_NVCC
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace osprey::train {

#ifdef OSPREY_HAS_NVCC

struct StepGraph::Recording {
  static constexpr int kStepsBefore = 3;

  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  at::cuda::CUDAGraph graph;
  Batch input;  ///< what the recorded step reads
  StepResult result;
  int steps_before = 0;
  bool recorded = false;

  /// `second` goes on after what has been started on `first`.
  static void wait(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) {
    at::cuda::CUDAEvent event;
    event.record(first);
    event.block(second);
  }
};

bool StepGraph::available() { return true; }

StepGraph::StepGraph(TrainState& state, optim::GradientPipeline& gradients, const StepOptions& options)
    : state_(state), gradients_(gradients), options_(options), recording_(std::make_unique<Recording>()) {}

StepResult StepGraph::step(const Batch& batch) {
  Recording& r = *recording_;
  const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream();
  Recording::wait(outer, r.stream);  // the batch is on its way
  StepResult result;
  {
    const c10::cuda::CUDAStreamGuard guard(r.stream);
    prepare_step(state_);
    if (!r.recorded && r.steps_before++ == Recording::kStepsBefore) record(batch);
    if (r.recorded) {
      copy(batch, r.input);
      r.graph.replay();
      result = r.result;
    } else {
      result = device_step(state_, batch, gradients_, options_);
    }
    result.learning_rate = state_.optimizer->learning_rate().at(state_.step);
    count_step(state_);
  }
  Recording::wait(r.stream, outer);
  return result;
}

void StepGraph::record(const Batch& batch) {
  Recording& r = *recording_;
  r.input = clone(batch);
  std::string problem;
  try {
    r.graph.capture_begin();
    try {
      r.result = device_step(state_, r.input, gradients_, options_);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    r.graph.capture_end();  // also after a failure: the stream has to leave the recording
  } catch (const std::exception& error) {
    if (problem.empty()) problem = error.what();
  }
  r.recorded = problem.empty();
  if (r.recorded) return;
  SPDLOG_WARN("the step could not be recorded as a CUDA graph, and runs without: {}", problem);
  state_.model->discard_statistics();
  r.result = {};
  r.input = {};
}

#else

struct StepGraph::Recording {};

bool StepGraph::available() { return false; }

StepGraph::StepGraph(TrainState& state, optim::GradientPipeline& gradients, const StepOptions& options)
    : state_(state), gradients_(gradients), options_(options) {
  throw ConfigError("train_config.accelerator.cuda_graph: this build has no kernels for GPUs");
}

StepResult StepGraph::step(const Batch& batch) { return train_step(state_, batch, gradients_, options_); }

#endif

StepGraph::~StepGraph() = default;

}  // namespace osprey::train
