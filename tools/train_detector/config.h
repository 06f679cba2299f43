#pragma once
#include "osprey/config/pipeline.h"
#include "train_detector/flags.h"

namespace osprey::tools {

/// The config with all that the flags say: those that stand for a field are overrides like any other, so that the saved
/// config says what was run.
/// replicas  that train together, of whose images --batch_size names a share
/// throws    ConfigError as `config::load_pipeline`, and for a --resnet_depth of what is no ResNet
config::Pipeline pipeline_of(const TrainFlags& flags, int64_t replicas);

/// Says in the log what --num_train_steps, --num_epochs and --eval_every_n take the place of.
void tell_dropped_epochs(const TrainFlags& flags);

}  // namespace osprey::tools
