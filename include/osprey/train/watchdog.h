#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace osprey::train {

/// Says in the log which stage of the loop is stuck: once when a stage has lasted longer than the limit, and again each
/// time that span has passed once more. A thread of its own; costs the loop nothing but `enter`.
class Watchdog {
 public:
  explicit Watchdog(double limit_seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The loop is now at `stage`, e.g. "waiting for data"; "" stops the clock.
  void enter(const char* stage, long step);

  /// Warnings given so far.
  int warnings() const;

 private:
  void watch();

  const std::chrono::duration<double> limit_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string stage_;
  long step_ = 0;
  std::chrono::steady_clock::time_point since_, warned_;
  int warnings_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace osprey::train
