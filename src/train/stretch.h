#pragma once
#include <optional>

#include "osprey/train/job.h"
#include "train/assembly.h"

namespace osprey::train {

/// One stretch of a training: from where the state stands to the end, or to where it has to go back to a checkpoint.
/// Everything in the model directory that is of later steps than the state's is void.
/// began  when the training began, by `now` of base/clock.h, less what it has taken before: set by its first stretch
RunOutcome run_from_here(Assembly& assembly, const JobOptions& options, std::optional<double>& began);

}  // namespace osprey::train
