#pragma once

namespace osprey::train {

/// While this lives, SIGINT and SIGTERM ask the run to end instead of ending the process; a second one ends it at once,
/// with 128 + its number. At most one at a time.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// The signal that came, 0 where none did.
  static int received();
};

}  // namespace osprey::train
