#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/config/pipeline.h"
#include "osprey/optim/gradients.h"
#include "osprey/train/job.h"
#include "osprey/train/train_state.h"

namespace osprey::train {

/// The parts of a training as a config describes them, with first weights.
struct Assembly {
  config::Pipeline pipeline;
  std::optional<config::LabelMap> label_map;
  std::vector<std::string> names;   ///< of the classes
  std::vector<std::string> frozen;  ///< variables that are not trained
  TrainState state;
  std::unique_ptr<optim::GradientPipeline> gradients;
  StepOptions step;
  StepRecording cuda_graph = StepRecording::kOff;  ///< see TrainerOptions
  std::unique_ptr<GradientSum> gradient_sum;       ///< null where one process trains alone
  int64_t batch_size = 0;                          ///< of all replicas together
  int64_t resident_before = 0;                     ///< bytes, before the model was built

  config::ConfigNode<proto::TrainEvalPipelineConfig> root() const { return pipeline.root(); }
  const proto::TrainConfig& train() const { return pipeline.message->train_config(); }
  const proto::InputReader& train_reader() const { return pipeline.message->train_input_reader(); }
};

/// throws ConfigError for whatever the config gets wrong
Assembly assemble(config::Pipeline pipeline, const JobOptions& options);

/// While it lives, the assembly's model runs and steps by itself, without the other replicas.
class AloneScope {
 public:
  AloneScope(Assembly& assembly, Replicas* replicas);
  ~AloneScope();
  AloneScope(const AloneScope&) = delete;
  AloneScope& operator=(const AloneScope&) = delete;

 private:
  Assembly& assembly_;
  Replicas* replicas_;
};

/// The most memory that the training has taken so far, bytes: of the GPU where it runs on one (since its step was
/// recorded, where it is), else what this process holds more than before its model was built.
int64_t peak_memory(const Assembly& assembly);

/// Of it, what does not depend on the batch: weights, their gradients, and what the optimizer and the averages keep.
int64_t state_memory(const Assembly& assembly);

}  // namespace osprey::train
