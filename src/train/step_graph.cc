#include "train/step_graph.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "osprey/base/error.h"
#include "osprey/base/memory.h"

#ifdef OSPREY_HAS_NVCC
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <exception>
#include <vector>
#endif

namespace osprey::train {
namespace {

const char* const kField = "train_config.accelerator.cuda_graph";

}  // namespace

#ifdef OSPREY_HAS_NVCC

struct StepGraph::Recording {
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  c10::MempoolId_t pool = at::cuda::graph_pool_handle();  ///< memory of the recorded step
  Batch input;                                            ///< what the recorded step reads
  StepResult result;
  int steps_before = 0;
  bool recorded = false;
  int64_t kernels = 0;

  /// Whoever looks at the state then finds what was started of the step done; with a GPU that is lost nobody does.
  static void join_after_failure(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) {
    try {
      wait(first, second);
    } catch (const std::exception& error) {
      SPDLOG_DEBUG("after a step that failed: {}", error.what());
    }
  }
  /// `second` goes on after what has been started on `first`.
  static void wait(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) {
    at::cuda::CUDAEvent event;
    event.record(first);
    event.block(second);
  }
};

namespace {

/// How many things of either kind a recording starts.
struct Launches {
  int64_t kernels = 0, others = 0;  ///< copies and fills
};

Launches launches_of(cudaGraph_t graph) {
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  Launches result;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel) ++result.kernels;
    if (type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset) ++result.others;
  }
  return result;
}

/// After a recording that CUDA has broken off libtorch's allocators still record: until they are told, they would give
/// nothing back. What they know already they answer with an error.
void leave_pool(c10::DeviceIndex device, const c10::MempoolId_t& pool) {
  const auto tell = [](auto call) {
    try {
      call();
    } catch (const std::exception& error) {
      SPDLOG_DEBUG("leaving the pool of a recorded step: {}", error.what());
    }
  };
  at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
  tell([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool); });
  tell([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool); });
  tell([&] { host.end_allocate_to_pool(pool); });
  tell([&] { host.release_pool(pool); });
}

}  // namespace

bool StepGraph::available() { return true; }

int64_t StepGraph::kernels() const { return recording_->kernels; }

StepGraph::StepGraph(TrainState& state, optim::GradientPipeline& gradients, const StepOptions& options, bool required)
    : state_(state),
      gradients_(gradients),
      options_(options),
      required_(required),
      recording_(std::make_unique<Recording>()) {}

StepResult StepGraph::step(const Batch& batch) {
  Recording& r = *recording_;
  const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream();
  Recording::wait(outer, r.stream);  // the batch is on its way
  StepResult result;
  try {
    const c10::cuda::CUDAStreamGuard guard(r.stream);
    prepare_step(state_);
    if (!r.recorded && r.steps_before++ == kStepsBefore) record(batch);
    if (r.recorded) {
      copy(batch, r.input);
      r.graph.replay();
      result = r.result;
    } else {
      result = device_step(state_, batch, gradients_, options_);
    }
    result.learning_rate = state_.optimizer->learning_rate_at(state_.step);
    count_step(state_);
  } catch (const std::exception&) {
    Recording::join_after_failure(r.stream, outer);
    throw;
  }
  Recording::wait(r.stream, outer);
  return result;
}

void StepGraph::record(const Batch& batch) {
  Recording& r = *recording_;
  for (at::Tensor& parameter : state_.model->parameters()) parameter.mutable_grad() = at::Tensor();
  std::exception_ptr failure;
  bool begun = false, ended = false;
  try {
    r.input = clone(batch);
    // A recorded step has memory of its own, and none that is kept for reuse is given back while it is recorded. What
    // the first steps needed to choose their ways does not count as memory of a step.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(r.stream.device_index());
    begun = true;
    // Threads that read data may allocate pinned memory meanwhile.
    r.graph.capture_begin(r.pool, cudaStreamCaptureModeThreadLocal);
    try {
      r.result = device_step(state_, r.input, gradients_, options_);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    r.graph.capture_end();  // also after a failure: the stream has to leave the recording
    ended = true;
    if (!failure) {
      const auto [kernels, others] = launches_of(r.graph.raw_cuda_graph());
      r.graph.instantiate();
      r.kernels = kernels;
      SPDLOG_INFO("the step is recorded as a CUDA graph of {} kernels and {} copies and fills", kernels, others);
    }
  } catch (const std::exception&) {
    if (!failure) failure = std::current_exception();
  }
  r.recorded = !failure;
  if (r.recorded) return;
  state_.model->discard_statistics();
  for (at::Tensor& parameter : state_.model->parameters()) parameter.mutable_grad() = at::Tensor();
  r.result = {};
  r.input = {};
  r.graph.reset();
  if (begun && !ended) leave_pool(r.stream.device_index(), r.pool);
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception& error) {
    SPDLOG_DEBUG("after a recording that failed: {}", error.what());
  }
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    if (required_ && is_out_of_memory(error)) throw;  // a smaller batch may do
    if (required_)
      throw ConfigError(fmt::format("{}: ON, but the step could not be recorded: {}", kField, error.what()));
    SPDLOG_WARN("the step could not be recorded as a CUDA graph, and runs without: {}", error.what());
  }
}

#else

struct StepGraph::Recording {};

bool StepGraph::available() { return false; }

int64_t StepGraph::kernels() const { return 0; }

StepGraph::StepGraph(TrainState& state, optim::GradientPipeline& gradients, const StepOptions& options, bool required)
    : state_(state), gradients_(gradients), options_(options), required_(required) {
  throw ConfigError(fmt::format("{}: this build has no kernels for GPUs", kField));
}

StepResult StepGraph::step(const Batch& batch) { return train_step(state_, batch, gradients_, options_); }

#endif

StepGraph::~StepGraph() = default;

}  // namespace osprey::train
