#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/checkpoint/directory.h"
#include "osprey/data/batch_source.h"
#include "osprey/train/early_stopping.h"
#include "osprey/train/hook.h"
#include "osprey/train/last_evaluation.h"
#include "osprey/train/replicas.h"
#include "osprey/train/step.h"

namespace osprey::train {

/// Metrics by their TensorBoard tag.
using Metrics = std::map<std::string, double>;

/// Whether a step is recorded as a CUDA graph and repeated; on a GPU.
enum class StepRecording {
  kOff,
  kIfPossible,  ///< where a step cannot be recorded, that is said and steps run one by one
  kRequired,    ///< where it cannot be recorded, the run ends with a ConfigError
};

struct TrainerOptions {
  int64_t num_steps = 0;              ///< a total, not counted from a resume; 0: until a signal comes
  int64_t checkpoint_every_n = 1000;  ///< and at the end, and after a signal; 0: only then
  double checkpoint_every_secs = 0;   ///< a checkpoint also after so long without one; 0: not for that reason
  int64_t eval_every_n = 0;           ///< 0: at every checkpoint
  int64_t eval_from = 0;              ///< the first step after which an evaluation may be made, but for the last one
  /// On a GPU, steps between two questions whether all went well, at most 10 where batches are left out; a CPU always
  /// answers. At least 1. A log line is of a step that was made where this divides the steps between two of them.
  int64_t look_every_n = 1;
  int64_t max_rollbacks = 0;  ///< how often, in all, a batch that is not finite may send the run back to a checkpoint
  int64_t max_skipped_in_a_row = 0;  ///< batches that are not finite and left out; one more ends the run
  StepRecording cuda_graph = StepRecording::kOff;
  StepOptions step;
  std::map<std::string, std::string> attributes;  ///< written into every checkpoint beside the state
  double stall_seconds = 60;                      ///< the watchdog says which stage is stuck after so long
};

/// The parts a trainer runs; all but `state`, `source` and `gradients` may be left out.
struct TrainerParts {
  TrainState* state = nullptr;
  data::BatchSource* source = nullptr;
  optim::GradientPipeline* gradients = nullptr;
  checkpoint::Directory* checkpoints = nullptr;  ///< none: nothing is saved
  checkpoint::BestKeeper* best = nullptr;
  EarlyStopping* early_stopping = nullptr;  ///< is told the metrics and may end the run
  std::vector<Hook*> hooks;
  /// Called in evaluation mode's place. Nothing where a signal ended it early: then the run ends, too.
  std::function<std::optional<Metrics>(const TrainState&)> evaluate;
  LastEvaluation* last_evaluation = nullptr;  ///< is told each one after all others have been
  /// Reports a batch that is not finite: the first that is left out, and that which ends the run; returns what it says.
  std::function<std::string(const TrainState&, const Batch&, const StepResult&)> nan_report;
  std::function<std::string(const Batch&)> memory_advice;  ///< after a step that did not fit: which batch would
  std::function<int()> signal;                             ///< the signal that asks the run to end; 0: none
  Replicas* replicas = nullptr;  ///< that make the same steps and evaluations; those other than the chief have no
                                 ///< checkpoints, best, early_stopping, last_evaluation or hooks, and wait while
                                 ///< the chief is busy
};

/// How a run ended.
struct RunOutcome {
  int64_t steps = 0;                      ///< made by this call
  bool already_done = false;              ///< the state was at num_steps, or where it was stopped early, from the start
  bool stopped_early = false;             ///< it ended before num_steps, for what its evaluations gave
  int64_t kernels_per_step = 0;           ///< where steps were recorded as a CUDA graph
  double evaluation_seconds = 0;          ///< that evaluations took
  int signal = 0;                         ///< the signal that ended it; a checkpoint was written
  std::optional<int64_t> roll_back_past;  ///< it is to go back to `rollback_target`, and on after this batch
};

/// Runs steps until `num_steps`, an evaluation after which it is to stop early, a signal, or a loss that is not finite.
///
/// Resuming is: restore the state, seek the source to `state.data_position`, call this. A checkpoint is written before
/// the evaluation that belongs to it, so what an evaluation does can not be lost work. A signal ends an evaluation,
/// too, and the run with it, with a checkpoint of its step. An evaluation that was due where the run goes on, or at
/// num_steps, and was lost since the run ended in it, is made first; where seconds decide when checkpoints and
/// evaluations come, only the one at num_steps.
///
/// A batch that is left out counts as a step that changes nothing but `state.skipped`. A GPU changes nothing from there
/// on until it is asked whether all went well; then the steps after that batch are made again. So what is left out, and
/// every bit of what is not, is the same whenever it is asked. Where the run is to go back instead, it ends with
/// `roll_back_past` and the state before the step.
///
/// throws  DivergedError with "LossTensor is inf or nan." and what the report says; the state is that before the
///         step
///         OutOfMemoryError with the advice
///         ConfigError naming an operation that has no deterministic form, where libtorch was told to take no other
///         DataError where a finite source ends early; what hooks and parts throw
RunOutcome run(const TrainerParts& parts, const TrainerOptions& options);

/// The checkpoint that a run which comes to a bad batch goes back to: the newest at a multiple of `every_n` steps that
/// is earlier than the batch, since one of the same step holds the weights that have just failed; that one where there
/// is no other. Those of a signal do not count, so that a run which was interrupted goes back as far as any other.
/// step     of the state; later checkpoints do not count
/// every_n  0: all count
std::optional<checkpoint::Entry> rollback_target(const std::filesystem::path& model_dir, int64_t step, int64_t every_n);

/// Steps for `epochs` passes over the data, rounded up.
int64_t steps_for(double epochs, int64_t num_examples, int64_t batch_size);

/// As many steps as are asked for, or as there are batches for. 0 asks for no end; there is no limit to 0 batches.
int64_t steps_within(int64_t asked, int64_t batches);

/// Says at the start what would otherwise be found out late: that the learning-rate schedule is over, so that every
/// step still to come would train at rate 0. A rate of 0 at the very end of a schedule is normal.
///
/// throws  ConfigError with the step and num_steps
void check_schedule(const optim::LearningRate& learning_rate, int64_t first_step, int64_t num_steps);

}  // namespace osprey::train
