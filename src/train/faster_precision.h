#pragma once
#include "osprey/data/loader.h"
#include "osprey/models/detection_model.h"
#include "osprey/train/replicas.h"
#include "osprey/train/step.h"

namespace osprey::train {

/// Seconds of forward and backward in either arithmetic.
struct PrecisionTrial {
  double float32 = 0, bfloat16 = 0;
};

/// Tries both on made-up pictures, in turns; the shortest of two times counts. The model is left as it was, and
/// without gradients.
/// source    what the run's batches are like; of their pictures at most two are used
/// replicas  over whom the times are summed, so that all come to the same end; null: this process alone
PrecisionTrial try_precisions(models::DetectionModel& model, const data::SourceOptions& source, Replicas* replicas);

}  // namespace osprey::train
