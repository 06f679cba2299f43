#include "train/device_feed.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "osprey/base/clock.h"

namespace osprey::train {

DeviceFeed::DeviceFeed(data::BatchSource& source, const at::Device& device) : source_(source), device_(device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  copied_.emplace(device.type());
}

void DeviceFeed::fetch() {
  const double started = now();
  ahead_ = source_.next();
  source_seconds_ += now() - started;
  fetched_ = true;
  if (!ahead_ || !stream_) return;
  const c10::StreamGuard guard(*stream_);
  ahead_ = to(pinned(*ahead_), device_);
  copied_->record(*stream_);
}

std::optional<Batch> DeviceFeed::next() {
  source_seconds_ = 0;
  if (!fetched_) fetch();
  std::optional<Batch> result = std::move(ahead_);
  fetched_ = false;
  if (!stream_) return result;
  const c10::Stream here = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  auto& used = used_[calls_++ % used_.size()];
  if (used) used->synchronize();
  used.emplace(device_.type());
  used->record(here);
  if (result) {
    copied_->block(here);
    used_on(*result, here);
  }
  return result;
}

void DeviceFeed::fetch_ahead() {
  if (stream_ && !fetched_) fetch();
}

void DeviceFeed::seek(int64_t index) {
  ahead_.reset();
  fetched_ = false;
  source_.seek(index);
}

int64_t DeviceFeed::position() const { return source_.position() - (fetched_ && ahead_ ? 1 : 0); }

}  // namespace osprey::train
