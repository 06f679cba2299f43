#pragma once
#include <string>

#include "osprey/config/pipeline.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::config {

/// Carries out `train_config.auto_scale_lr` and clears it: what was tuned for base_batch_size becomes what fits
/// train_config.batch_size, in numbers that stand in the config.
///
///     k = batch_size / base_batch_size
///     every learning rate * k, but that at which a warm-up begins
///     scale_schedule: num_steps and every step of the schedule / k, rounded, at least 1
///     warmup_steps: a warm-up from the unscaled rate, where k > 1 and the schedule has none
///
/// returns  what was done, in one line for the log; "" where nothing was asked for
/// throws   ConfigError where base_batch_size is 0, where a warm-up would reach into the schedule, and for a
///          schedule or an optimizer of another program
/// source   Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.1 (linear scaling) and 2.2 (warm-up)
std::string scale_to_batch(Pipeline& pipeline);

/// The schedule of the chosen optimizer; null where there is none, or one of another program.
proto::LearningRate* learning_rate_of(proto::Optimizer& optimizer);

}  // namespace osprey::config
