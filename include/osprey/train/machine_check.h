#pragma once
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/pipeline.h"

namespace osprey::train {

/// One thing that a training needs of its machine.
struct MachineFinding {
  enum class State {
    kOk,
    kWarning,  ///< trains, but slower than it could or not for long
    kProblem,  ///< does not train
  };
  std::string subject;  ///< "cpu", "memory", "step on cuda:0", ...
  State state = State::kOk;
  std::string found;   ///< one line
  std::string advice;  ///< what to do about it; empty where there is nothing to do
};

struct MachineCheckOptions {
  std::string model_dir;                     ///< a folder that a training would write to; empty: none is looked at
  std::optional<config::Pipeline> pipeline;  ///< whose steps are tried; none: SSD MobileNet v1, 300x300, batch 2
};

/// Looks at CPU, threads, memory, shared memory, open files, allocator, GPUs with their driver, model_dir, and makes a
/// few steps with made-up pictures on the CPU and on every GPU that libtorch finds. Leaves nothing behind: a model_dir
/// that is not there is made and removed again.
std::vector<MachineFinding> check_machine(const MachineCheckOptions& options);

/// Whether a training would fail here.
bool has_problem(const std::vector<MachineFinding>& findings);

/// For people: a line for each, and one for its advice; the last line counts.
std::string machine_text(const std::vector<MachineFinding>& findings);

/// One JSON object, ending with a newline. Keys: problem (whether there is one), versions (of `--version`), findings (a
/// list; each with the fields of MachineFinding, `state` being "ok", "warning" or "problem").
std::string machine_json(const std::vector<MachineFinding>& findings);

}  // namespace osprey::train
