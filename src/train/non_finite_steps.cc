#include "train/non_finite_steps.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/kernels/device.h"

namespace osprey::train {
namespace {

/// A GPU that has left a batch out makes at most about so many steps again.
constexpr int64_t kMadeAgain = 10;

}  // namespace

NonFiniteSteps::NonFiniteSteps(const TrainerParts& parts, const TrainerOptions& options, DeviceFeed& feed)
    : parts_(parts), options_(options), state_(*parts.state), feed_(feed), first_step_(state_.step) {
  TORCH_CHECK(options.look_every_n >= 1, "look_every_n must be >= 1, got ", options.look_every_n);
  state_.healthy = state_.healthy_steps = at::Tensor();
}

bool NonFiniteSteps::all_made(const StepResult& result, bool at_once) {
  if (!kernels::device::reading_waits(result.healthy) || at_once) {
    asked_.reset();
    return result.ok();
  }
  if (asked_) {
    const bool healthy = asked_->tensors().front().item<bool>();
    asked_.reset();
    if (!healthy) return false;
  }
  const bool soon = options_.max_skipped_in_a_row > 0 && state_.step % kMadeAgain == 0;
  if (soon || state_.step % options_.look_every_n == 0) asked_.emplace(std::vector{result.healthy});
  return true;
}

NonFiniteSteps::Next NonFiniteSteps::handle(Batch batch, StepResult& result, const std::function<void()>& make_room) {
  // A CPU has not counted the step; a device has, and tells which one it was by having done nothing since.
  const int64_t behind = state_.step - first_step_ - state_.healthy_steps.item<int64_t>();
  if (behind > 0) {
    state_.step -= behind;
    state_.data_position -= behind;
    feed_.seek(state_.data_position);
    batch = feed_.next().value();
  }
  const SkippedBatches skipped = state_.skipped.with(state_.step);
  const bool skips = skipped.in_a_row <= options_.max_skipped_in_a_row;
  const bool rolls_back = !skips && may_roll_back();
  std::string said;
  if (skipped.total + state_.rollbacks == 1 || (!skips && !rolls_back)) {
    make_room();
    said = report(batch, result, /*once_more=*/behind > 0);
    if (parts_.replicas != nullptr) parts_.replicas->meet();  // who ends first ends the others
  }
  if (rolls_back) {
    warn(batch, "the run goes back to a checkpoint" + said);
    return Next::kRollBack;
  }
  if (!skips)
    throw DivergedError(fmt::format("LossTensor is inf or nan. Step {} was not applied{}{}", state_.step,
                                    why_it_ends(skipped.in_a_row), said));
  state_.skipped = skipped;
  warn(batch, fmt::format("it is left out, {} in a row of at most {}, {} in all{}", skipped.in_a_row,
                          options_.max_skipped_in_a_row, skipped.total, said));
  count_step(state_);
  state_.healthy.fill_(true);
  state_.healthy_steps.zero_();
  first_step_ = state_.step;
  return behind > 1 ? Next::kStepsAgain : Next::kGoOn;
}

bool NonFiniteSteps::may_roll_back() const {
  if (state_.rollbacks >= options_.max_rollbacks) return false;
  const bool here = parts_.checkpoints != nullptr &&
                    rollback_target(parts_.checkpoints->folder(), state_.step, options_.checkpoint_every_n);
  return parts_.replicas != nullptr ? parts_.replicas->largest(here ? 1 : 0) != 0 : here;
}

std::string NonFiniteSteps::why_it_ends(int64_t in_a_row) const {
  if (options_.max_skipped_in_a_row > 0)
    return fmt::format(", nor were the {} before it (train_config.on_nan.max_skipped_in_a_row)", in_a_row - 1);
  if (options_.max_rollbacks == 0) return "";
  if (state_.rollbacks >= options_.max_rollbacks)
    return fmt::format(", after {} rollbacks (train_config.on_nan.max_rollbacks)", state_.rollbacks);
  return fmt::format(", and there is no checkpoint to go back to at a multiple of {} steps",
                     options_.checkpoint_every_n);
}

/// once_more  the step is tried again, to see what it made
std::string NonFiniteSteps::report(const Batch& batch, StepResult& result, bool once_more) const {
  if (once_more) {
    try {
      result = device_step(state_, batch, *parts_.gradients, options_.step);
      result.learning_rate = state_.optimizer->learning_rate_at(state_.step);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;  // else the report has to do with what came of the later step
    }
  }
  const std::string said = parts_.nan_report ? parts_.nan_report(state_, batch, result) : "";
  return said.empty() ? "" : "; " + said;
}

void NonFiniteSteps::warn(const Batch& batch, const std::string& consequence) const {
  std::vector<std::string> shares{fmt::format("{}", fmt::join(batch.ids, ", "))};
  if (parts_.replicas != nullptr) shares = parts_.replicas->gather(shares.front());
  if (shares.empty()) return;  // the chief says it
  SPDLOG_WARN("Loss or gradients of step {} are not finite, images {}: {}", state_.step, fmt::join(shares, ", "),
              consequence);
}

}  // namespace osprey::train
