#include "train/memory_advice.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "osprey/base/memory.h"

namespace osprey::train {
namespace {

/// Counts the tensors of one kind of device while it is in force, in this thread and those that work for it.
class Meter final : public c10::MemoryReportingInfoBase {
 public:
  explicit Meter(at::DeviceType device) : device_(device) {}
  bool memoryProfilingEnabled() const override { return true; }
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, at::Device device) override {
    if (device.type() != device_) return;
    const int64_t now = taken_ += size;
    int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  double peak() const { return static_cast<double>(peak_); }

 private:
  at::DeviceType device_;
  std::atomic<int64_t> taken_ = 0, peak_ = 1;
};

struct Pass {
  bool fits = true;
  double bytes = 0;  ///< at most, beside what was there before; of a pass that does not fit, what it had by then
};

/// While it lives cuDNN's convolutions are taken as they come: to look for the fastest takes longer than the passes.
class NoSearch {
 public:
  NoSearch() { at::globalContext().setBenchmarkCuDNN(false); }
  ~NoSearch() { at::globalContext().setBenchmarkCuDNN(before_); }
  NoSearch(const NoSearch&) = delete;
  NoSearch& operator=(const NoSearch&) = delete;

 private:
  bool before_ = at::globalContext().benchmarkCuDNN();
};

Pass measure(models::DetectionModel& model, const Batch& batch, const StepOptions& options) {
  const at::DeviceType device = batch.images.device().type();
  const auto meter = std::make_shared<Meter>(device);
  Pass result;
  try {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    accumulate_gradients(model, batch, options);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    result.fits = false;
  }
  result.bytes = meter->peak();
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  model.discard_statistics();
  if (device != at::kCPU) at::getDeviceAllocator(device)->emptyCache();
  return result;
}

/// From what the batch had got when it failed and from what few images take; a tenth stays free.
int64_t batch_that_fits(models::DetectionModel& model, const Batch& batch, const StepOptions& options) {
  const double room = 0.9 * measure(model, batch, options).bytes;
  int64_t fits = 0;
  // More and more of them, so that what does not grow with them counts less. Nearly too many are not tried, as some
  // libraries do not survive a failed allocation, unless the batch failed too early to say how many those are.
  for (int64_t some = 1; some < batch.size() && (fits < some || 4 * some <= fits); some *= 2) {
    const Pass pass = measure(model, slice(batch, 0, some), options);
    if (!pass.fits) break;
    const auto estimate = static_cast<int64_t>(room / pass.bytes * static_cast<double>(some));
    fits = std::clamp(estimate, some, batch.size() - 1);
  }
  return fits;
}

}  // namespace

std::string memory_advice(models::DetectionModel& model, const Batch& batch, StepOptions options, int64_t replicas) {
  const int64_t size = batch.size(), failed = size / std::exchange(options.micro_batches, 1);
  options.replicas = nullptr;
  const NoSearch scope;
  const int64_t most = batch_that_fits(model, slice(batch, 0, failed), options);
  if (most == 0) return "not even one image at a time fits";
  int64_t parts = (size + most - 1) / most;
  while (size % parts != 0) ++parts;
  return fmt::format(
      "about {} images at a time fit{}: train_config.batch_size={}, or train_config.gradient_accumulation_steps={}, "
      "which leaves the batch at {}",
      most, replicas > 1 ? " on each replica" : "", most * replicas, parts, size * replicas);
}

}  // namespace osprey::train
