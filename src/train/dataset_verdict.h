#pragma once
#include "osprey/config/label_map.h"
#include "osprey/data/source_options.h"
#include "osprey/train/dataset_check.h"

namespace osprey::train {

/// Adds to stops and warnings what a training, or an evaluation, does about all that was found.
/// label_map  may be null
void judge(ReaderCheck& check, const proto::InputReader& reader, const data::SourceOptions& source,
           const config::LabelMap* label_map);

}  // namespace osprey::train
