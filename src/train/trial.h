#pragma once
#include <functional>
#include <vector>

#include "train/assembly.h"

namespace osprey::train {

/// Makes steps of which nothing is kept: no checkpoints, evaluations or reports.
/// ends  asked after each step; other than 0 where it was the last
RunOutcome make_trial_steps(Assembly& assembly, const JobOptions& job, data::BatchSource& source,
                            std::vector<Hook*> hooks, int64_t count, std::function<int()> ends = {});

}  // namespace osprey::train
