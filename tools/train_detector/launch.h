#pragma once
#include <optional>

#include "osprey/config/pipeline.h"
#include "osprey/train/replicas.h"
#include "train_detector/flags.h"

namespace osprey::tools {

/// throws ConfigError for flags of the launcher that nobody would obey
void check_launch_flags(const TrainFlags& flags, const std::optional<train::ReplicaPlace>& place);

/// Starts the replicas and watches over them; returns the exit code.
/// throws ConfigError for a batch that cannot be shared, and a --master that is none
int launch(TrainFlags& flags, const config::Pipeline& pipeline);

}  // namespace osprey::tools
