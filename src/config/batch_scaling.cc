#include "osprey/config/batch_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace osprey::config {
namespace {

/// How a schedule is changed.
struct Scaling {
  double factor = 1;
  bool steps_too = false;
  uint32_t warmup_steps = 0;  ///< of a warm-up where there is none; 0: none is wanted

  float rate(float value) const { return static_cast<float>(value * factor); }
  uint32_t steps(uint32_t value) const {
    if (!steps_too || value == 0) return value;
    return static_cast<uint32_t>(
        std::clamp(std::round(value / factor), 1.0, double{std::numeric_limits<uint32_t>::max()}));
  }
};

void scale(proto::ExponentialDecayLearningRate& schedule, const Scaling& by) {
  const float unscaled = schedule.initial_learning_rate();
  schedule.set_initial_learning_rate(by.rate(unscaled));
  schedule.set_min_learning_rate(by.rate(schedule.min_learning_rate()));
  schedule.set_decay_steps(by.steps(schedule.decay_steps()));
  schedule.set_burnin_steps(by.steps(schedule.burnin_steps()));
  if (schedule.burnin_steps() > 0 || by.warmup_steps == 0) return;
  schedule.set_burnin_steps(by.warmup_steps);
  schedule.set_burnin_learning_rate(unscaled);
}

void scale(proto::ManualStepLearningRate& schedule, const Node& option, const Scaling& by) {
  const float unscaled = schedule.initial_learning_rate();
  for (auto& entry : *schedule.mutable_schedule()) {
    entry.set_learning_rate(by.rate(entry.learning_rate()));
    entry.set_step(by.steps(entry.step()));
  }
  if (schedule.warmup()) return;
  schedule.set_initial_learning_rate(by.rate(unscaled));
  if (by.warmup_steps == 0) return;
  if (schedule.schedule_size() > 0 && schedule.schedule(0).step() <= by.warmup_steps)
    option.fail("warmup_steps", fmt::format("must be less than the first step of the schedule, {}, got {}",
                                            schedule.schedule(0).step(), by.warmup_steps));
  // The line from the first rate to that of the first entry is the warm-up.
  proto::ManualStepLearningRate::LearningRateSchedule reached;
  reached.set_step(by.warmup_steps);
  reached.set_learning_rate(schedule.initial_learning_rate());
  const proto::ManualStepLearningRate former = schedule;
  schedule.clear_schedule();
  *schedule.add_schedule() = reached;
  for (const auto& entry : former.schedule()) *schedule.add_schedule() = entry;
  schedule.set_initial_learning_rate(unscaled);
  schedule.set_warmup(true);
}

void scale(proto::CosineDecayLearningRate& schedule, const Scaling& by) {
  const float unscaled = schedule.learning_rate_base();
  schedule.set_learning_rate_base(by.rate(unscaled));
  schedule.set_total_steps(by.steps(schedule.total_steps()));
  schedule.set_warmup_steps(by.steps(schedule.warmup_steps()));
  schedule.set_hold_base_rate_steps(by.steps(schedule.hold_base_rate_steps()));
  if (schedule.warmup_steps() > 0) {
    schedule.set_warmup_learning_rate(std::min(schedule.warmup_learning_rate(), schedule.learning_rate_base()));
  } else if (by.warmup_steps > 0) {
    schedule.set_warmup_steps(by.warmup_steps);
    schedule.set_warmup_learning_rate(unscaled);
  }
}

/// option  train_config.auto_scale_lr, for errors
void scale(proto::LearningRate& rate, const Node& option, const Scaling& by) {
  switch (rate.learning_rate_case()) {
    case proto::LearningRate::kExponentialDecayLearningRate:
      return scale(*rate.mutable_exponential_decay_learning_rate(), by);
    case proto::LearningRate::kManualStepLearningRate:
      return scale(*rate.mutable_manual_step_learning_rate(), option, by);
    case proto::LearningRate::kCosineDecayLearningRate:
      return scale(*rate.mutable_cosine_decay_learning_rate(), by);
    case proto::LearningRate::kCustom:
      option.fail("", "cannot scale the schedule of another program; scale it there");
    case proto::LearningRate::LEARNING_RATE_NOT_SET:
      return;  // which is said when the schedule is built
    case proto::LearningRate::kConstantLearningRate:
      break;
  }
  const float unscaled = rate.constant_learning_rate().learning_rate();
  if (by.warmup_steps == 0) {
    rate.mutable_constant_learning_rate()->set_learning_rate(by.rate(unscaled));
    return;
  }
  proto::ManualStepLearningRate& line = *rate.mutable_manual_step_learning_rate();
  line.set_initial_learning_rate(unscaled);
  line.set_warmup(true);
  auto& reached = *line.add_schedule();
  reached.set_step(by.warmup_steps);
  reached.set_learning_rate(by.rate(unscaled));
}

}  // namespace

proto::LearningRate* learning_rate_of(proto::Optimizer& optimizer) {
  if (optimizer.has_rms_prop_optimizer()) return optimizer.mutable_rms_prop_optimizer()->mutable_learning_rate();
  if (optimizer.has_momentum_optimizer()) return optimizer.mutable_momentum_optimizer()->mutable_learning_rate();
  if (optimizer.has_adam_optimizer()) return optimizer.mutable_adam_optimizer()->mutable_learning_rate();
  return nullptr;
}

std::string scale_to_batch(Pipeline& pipeline) {
  proto::TrainConfig& train = *pipeline.message->mutable_train_config();
  if (!train.has_auto_scale_lr()) return "";
  const proto::AutoScaleLearningRate wanted = train.auto_scale_lr();
  const auto node = pipeline.root().child("train_config", train);
  const auto option = node.child("auto_scale_lr", train.auto_scale_lr());
  if (wanted.base_batch_size() < 1) option.fail("base_batch_size", "must be >= 1");
  const Scaling scaling{static_cast<double>(train.batch_size()) / wanted.base_batch_size(), wanted.scale_schedule(),
                        train.batch_size() > wanted.base_batch_size() ? wanted.warmup_steps() : 0};
  proto::LearningRate* const rate = learning_rate_of(*train.mutable_optimizer());
  if (train.optimizer().has_custom()) option.fail("", "cannot scale the optimizer of another program; scale it there");
  if (rate != nullptr) scale(*rate, option, scaling);
  const uint32_t steps_before = train.num_steps();
  if (train.num_steps() > 0) train.set_num_steps(scaling.steps(train.num_steps()));
  train.clear_auto_scale_lr();
  std::string line = fmt::format("auto_scale_lr: batch {} instead of {}: learning rates x {:g}", train.batch_size(),
                                 wanted.base_batch_size(), scaling.factor);
  if (scaling.steps_too && steps_before > 0)
    line += fmt::format(", {} steps instead of {}", train.num_steps(), steps_before);
  else if (scaling.steps_too)
    line += fmt::format(", steps of the schedule / {:g}", scaling.factor);
  return line;
}

}  // namespace osprey::config
