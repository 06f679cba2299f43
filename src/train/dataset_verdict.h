#pragma once
#include "osprey/config/label_map.h"
#include "osprey/config/pipeline.h"
#include "osprey/train/dataset_check.h"

namespace osprey::train {

/// Kind of the problems that a loader does not get over: a sum that does not fit, a file cut short or not readable.
inline constexpr const char* kUnreadable = "file is damaged or cannot be read";

/// Adds to stops and warnings what a training, or an evaluation, does about all that was found.
/// label_map  may be null
void judge(ReaderCheck& check, const proto::InputReader& reader, const proto::TrainEvalPipelineConfig& config,
           const config::LabelMap* label_map);

}  // namespace osprey::train
