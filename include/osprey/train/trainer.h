#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osprey/checkpoint/directory.h"
#include "osprey/data/batch_source.h"
#include "osprey/train/early_stopping.h"
#include "osprey/train/hook.h"
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
  int64_t look_every_n = 1;  ///< on a GPU, steps between two questions whether all went well; on a CPU always 1
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
  std::function<Metrics(const TrainState&)> evaluate;  ///< called in evaluation mode's place
  std::function<std::string(const TrainState&, const Batch&, const StepResult&)> nan_report;  ///< returns what it says
  std::function<std::string(const Batch&)> memory_advice;  ///< after a step that did not fit: which batch would
  std::function<int()> signal;                             ///< the signal that asks the run to end; 0: none
  Replicas* replicas = nullptr;  ///< that make the same steps and evaluations; those other than the chief have no
                                 ///< checkpoints, best, early_stopping or hooks, and wait while the chief is busy
};

/// How a run ended.
struct RunOutcome {
  int64_t steps = 0;             ///< made by this call
  bool already_done = false;     ///< the state was at num_steps, or where it was stopped early, from the start
  bool stopped_early = false;    ///< it ended before num_steps, since its evaluations no longer improved
  int64_t kernels_per_step = 0;  ///< where steps were recorded as a CUDA graph
  int signal = 0;                ///< the signal that ended it; a checkpoint was written
};

/// Runs steps until `num_steps`, an evaluation after which it is to stop early, a signal, or a loss that is not finite.
///
/// Resuming is: restore the state, seek the source to `state.data_position`, call this. A checkpoint is written before
/// the evaluation that belongs to it, so what an evaluation does can not be lost work.
/// With early stopping, an evaluation that was due but lost, because the run was killed in it, is made first.
///
/// throws  DivergedError with "LossTensor is inf or nan." and what the report says; the state is that before the
///         step
///         OutOfMemoryError with the advice
///         DataError where a finite source ends early; what hooks and parts throw
RunOutcome run(const TrainerParts& parts, const TrainerOptions& options);

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
