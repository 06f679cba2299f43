#include "osprey/train/watchdog.h"

#include <spdlog/spdlog.h>

namespace osprey::train {

Watchdog::Watchdog(double limit_seconds) : limit_(limit_seconds), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::enter(const char* stage, long step) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  step_ = step;
  since_ = warned_ = std::chrono::steady_clock::now();
}

int Watchdog::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, limit_ / 8, [this] { return stop_; })) {
    const auto now = std::chrono::steady_clock::now();
    if (stage_.empty() || now - warned_ < limit_) continue;
    warned_ = now;
    ++warnings_;
    SPDLOG_WARN("step {} is stuck: {} for {:.0f} s", step_, stage_,
                std::chrono::duration<double>(now - since_).count());
  }
}

}  // namespace osprey::train
