#pragma once
#include <string>

namespace osprey::train {

/// Notes what this thread, its backward passes and the GPUs do while it lives: operations, kernels, copies, waits.
/// There may be one at a time.
class StepTrace {
 public:
  StepTrace();
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Ends the notes and writes them in the format of chrome://tracing and ui.perfetto.dev (Trace Event Format).
  /// throws  DataError where nothing could be written
  void save(const std::string& file);

 private:
  bool running_ = true;
};

}  // namespace osprey::train
