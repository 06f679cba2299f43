#pragma once
#include <cstdint>
#include <string>

#include "osprey/config/pipeline.h"
#include "osprey/train/replicas.h"
#include "osprey/train/trainer.h"

namespace osprey::train {

/// What a command line says about a training beside its config.
struct JobOptions {
  std::string model_dir;
  std::string device = "cpu";    ///< "cpu", "cuda" or "cuda:<n>"
  bool use_fake_data = false;    ///< made-up pictures instead of the train_input_reader; no evaluation
  std::string command_line;      ///< for run_info.json
  Replicas* replicas = nullptr;  ///< that train together with this process; null: it trains alone
};

/// Trains as a pipeline config says, in a model directory: resumes what lies there, else starts from
/// `fine_tune_checkpoint` or random weights; saves, evaluates and logs on the way.
///
/// Of several replicas the chief alone reads and writes the model directory; the others get their state from it, and
/// see its share of the data (`train_config.batch_size` is that of all of them together).
///
/// pipeline  with every override applied; what it says after derived values (num_classes) is saved as
///           <model_dir>/pipeline.config
/// throws    ConfigError, DataError, CheckpointError before the first step where that is possible; DivergedError
RunOutcome train(config::Pipeline pipeline, const JobOptions& options);

/// Every replica sees as many images of a batch, and of each of its parts.
/// throws ConfigError for train_config.batch_size, with the nearest sizes that can be shared
void check_shares(const config::Pipeline& pipeline, int64_t replicas);

/// Builds everything, makes one step, writes nothing. Returns what was found, for the reader: parameters, steps and
/// epochs, the losses of the step, its time, peak memory.
std::string dry_run(config::Pipeline pipeline, const JobOptions& options);

/// Times `steps` steps after a warm-up and writes nothing but the trace. Returns one line of JSON: `steps`,
/// `batch_size`, `precision`, `threads`, `replicas`, `median_step_seconds`, `images_per_second`, `data_wait`,
/// `input_shares` (which part of the loader's work is to read, decode, augment and collate; not for made-up pictures),
/// `peak_memory_bytes` (the most that was resident minus what was before the model was built), `first_step_seconds`,
/// and `kernels_per_step` where the step was recorded as a CUDA graph, `traced_steps` where there is a trace.
/// trace   a file for what the CPU and GPUs of the first replica do in five more steps, which are not among those timed
///         but whose notes are in `peak_memory_bytes` (Trace Event Format, of chrome://tracing and ui.perfetto.dev);
///         none where it is empty
/// throws  DataError where the trace cannot be written
std::string benchmark(config::Pipeline pipeline, const JobOptions& options, int64_t steps,
                      const std::string& trace = "");

}  // namespace osprey::train
