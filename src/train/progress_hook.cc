#include "osprey/train/progress_hook.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "osprey/base/clock.h"
#include "osprey/base/memory.h"
#include "osprey/kernels/device.h"
#include "train/lagging_copy.h"

namespace osprey::train {

/// A record whose losses and norm are on their way.
struct ProgressHook::Pending {
  LogRecord record;
  std::vector<std::string> losses;
  LaggingCopy values;  ///< of the losses, then the norm: [n] float64
};

namespace {

int64_t bytes_in_use(const at::Device& device) {
  if (device.is_cpu()) return resident_bytes();
  return at::getDeviceAllocator(device.type())->getDeviceStats(device.index()).reserved_bytes[0].current;
}

/// Scalars of any type as one tensor, [n] float64.
at::Tensor packed(const std::vector<at::Tensor>& scalars) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& scalar : scalars) wide.push_back(scalar.detach().reshape({}).to(at::kDouble));
  return at::stack(wide);
}

}  // namespace

ProgressHook::ProgressHook(int64_t every_n, int64_t num_steps, std::vector<Sink> sinks, double started)
    : every_n_(std::max<int64_t>(1, every_n)), num_steps_(num_steps), sinks_(std::move(sinks)), started_(started) {}

ProgressHook::~ProgressHook() = default;

void ProgressHook::after_step(const StepEvent& event) {
  ++steps_;
  images_ += event.images;
  seconds_ += event.step_seconds;
  data_seconds_ += event.data_seconds;
  if (pending_ && pending_->values.ready()) write();
  if (event.state.step % every_n_ != 0 && !event.last) return;

  LogRecord record;
  record.step = event.state.step;
  record.num_steps = num_steps_;
  record.learning_rate = event.result.learning_rate;
  record.seconds_per_step = seconds_ / static_cast<double>(steps_);
  record.images_per_second = seconds_ > 0 ? static_cast<double>(images_) / seconds_ : 0;
  record.data_wait = seconds_ > 0 ? data_seconds_ / seconds_ : 0;
  record.memory_bytes = bytes_in_use(event.batch.images.device());
  record.skipped_batches = event.state.skipped.total;
  record.wall_seconds = now() - started_;
  steps_ = images_ = 0;
  seconds_ = data_seconds_ = 0;

  std::vector<std::string> names;
  std::vector<at::Tensor> values;
  for (const NamedScalar& loss : event.result.losses) {
    names.push_back(loss.name);
    values.push_back(loss.value);
  }
  values.push_back(event.result.gradient_norm);
  write();
  pending_ = std::make_unique<Pending>(Pending{std::move(record), std::move(names), LaggingCopy({packed(values)})});
  if (!kernels::device::reading_waits(event.result.gradient_norm) || event.last) write();
}

void ProgressHook::after_evaluation(const EvaluationEvent&) { write(); }

void ProgressHook::after_going_back(const TrainState& state) {
  if (pending_ && pending_->record.step > state.step) pending_.reset();
  if (pending_) pending_->record.skipped_batches = state.skipped.total;  // its step may be the one that was left out
  write();
}

void ProgressHook::write() {
  if (!pending_) return;
  const std::unique_ptr<Pending> pending = std::move(pending_);
  LogRecord& record = pending->record;
  const auto* values = pending->values.tensors().front().const_data_ptr<double>();
  for (const std::string& loss : pending->losses) record.losses.emplace_back(loss, *values++);
  record.gradient_norm = *values;
  for (const Sink& sink : sinks_) sink(record);
}

void write_log_line(const LogRecord& record) { SPDLOG_INFO("{}", log_line(record)); }

}  // namespace osprey::train
