#include "train/step_trace.h"

#include <ATen/Context.h>
#include <spdlog/spdlog.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <filesystem>
#include <set>

#include "osprey/base/error.h"

namespace osprey::train {

using torch::profiler::impl::ActivityType;

StepTrace::StepTrace() {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
}

StepTrace::~StepTrace() {
  if (!running_) return;
  try {
    torch::autograd::profiler::disableProfiler();
  } catch (const std::exception& error) {
    SPDLOG_DEBUG("a trace that nobody wants: {}", error.what());
  }
}

void StepTrace::save(const std::string& file) {
  running_ = false;
  torch::autograd::profiler::disableProfiler()->save(file);
  std::error_code missing;
  if (std::filesystem::file_size(file, missing) == 0 || missing)
    throw DataError(file + ": the trace could not be written");
}

}  // namespace osprey::train
