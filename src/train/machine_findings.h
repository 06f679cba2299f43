#pragma once
#include "base/processors.h"
#include "osprey/train/machine_check.h"

/// The parts of `check_machine`.
namespace osprey::train {

using Findings = std::vector<MachineFinding>;

/// CPU, threads, memory, /dev/shm, open files, allocator.
void look_at_host(Findings& findings);

/// Whether a step has as many threads as there are processors for it.
void look_at_threads(Findings& findings, int64_t threads, const ProcessorLimits& limits);

/// Driver and GPUs, and whether this build can use them.
void look_at_gpus(Findings& findings);

/// Whether a training could write there, and how much.
void look_at_folder(Findings& findings, const std::string& model_dir);

/// Makes a few steps with made-up pictures.
/// pipeline  none: of a small model
/// throws    ConfigError for what the pipeline gets wrong, on the CPU
void try_steps(Findings& findings, const std::string& device, const std::optional<config::Pipeline>& pipeline);

}  // namespace osprey::train
