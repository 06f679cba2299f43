#include "osprey/train/loss_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/kernels/device.h"
#include "support/golden.h"
#include "support/toy_model.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::expect_close;
using osprey::testing::make_toy_source;
using osprey::testing::ToyRun;

float value(const LossScale& scale) { return scale.value().item<float>(); }

/// After a step whose gradients were finite, or were not.
void update(LossScale& scale, bool finite, bool healthy = true) {
  scale.update(at::full({}, finite, at::kBool), at::full({}, healthy, at::kBool));
}

TEST(LossScale, HalvesAfterAnOverflowAndDoublesAfterEnoughStepsWithout) {
  LossScale scale({.initial = 8, .growth_interval = 3}, at::kCPU);
  update(scale, true);
  update(scale, true);
  EXPECT_EQ(value(scale), 8);
  update(scale, true);
  EXPECT_EQ(value(scale), 16);
  update(scale, true);
  update(scale, true);
  update(scale, false);  // the count begins again
  EXPECT_EQ(value(scale), 8);
  update(scale, true);
  update(scale, true);
  EXPECT_EQ(value(scale), 8);
  update(scale, true);
  EXPECT_EQ(value(scale), 16);
}

TEST(LossScale, EndsAtItsLeastAndAtTheLargestNumber) {
  LossScale scale({.initial = 2 * LossScale::kLeast}, at::kCPU);
  EXPECT_TRUE(scale.can_shrink().item<bool>());
  update(scale, false);
  EXPECT_EQ(value(scale), LossScale::kLeast);
  EXPECT_FALSE(scale.can_shrink().item<bool>());
  update(scale, false);
  EXPECT_EQ(value(scale), LossScale::kLeast);
  LossScale large({.initial = 3e38, .growth_interval = 1}, at::kCPU);
  update(large, true);
  EXPECT_FLOAT_EQ(value(large), 3e38f);
}

TEST(LossScale, OfARunThatHasEndedStays) {
  LossScale scale({.initial = 8, .growth_interval = 2}, at::kCPU);
  update(scale, true);
  for (const bool finite : {true, false, true}) update(scale, finite, /*healthy=*/false);
  EXPECT_EQ(value(scale), 8);
  update(scale, true);
  EXPECT_EQ(value(scale), 16) << "the second step without an overflow";
}

TEST(LossScale, OneThatIsFixedStays) {
  LossScale scale({.initial = 128, .dynamic = false}, at::kCPU);
  EXPECT_FALSE(scale.can_shrink().item<bool>());
  update(scale, false);
  EXPECT_EQ(value(scale), 128);
}

std::map<std::string, at::Tensor> state_of(const TrainState& state) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : snapshot(state).tensors) result[name] = tensor.detach().clone();
  return result;
}

TEST(LossScale, APowerOfTwoChangesNoBitOfAFloat32Step) {
  ToyRun plain({}), scaled({});
  scaled.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 1024, .dynamic = false}, at::kCPU);
  const auto source = make_toy_source(4), again = make_toy_source(4);
  for (int i = 0; i < 3; ++i) {
    train_step(plain.state, *source->next(), *plain.gradients, {});
    train_step(scaled.state, *again->next(), *scaled.gradients, {});
  }
  const auto ours = state_of(scaled.state);
  for (const auto& [name, tensor] : state_of(plain.state)) EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name;
}

/// A step whose gradients overflow, on the CPU and as it is on a device.
void expect_left_out(const std::string& optimizer) {
  ToyRun run({}, optimizer);
  run.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 3e38}, at::kCPU);
  const auto source = make_toy_source(4);
  auto before = state_of(run.state);
  const StepResult result = train_step(run.state, *source->next(), *run.gradients, {});
  EXPECT_TRUE(result.ok()) << "a smaller scale may help";
  EXPECT_EQ(run.state.step, 1);
  EXPECT_EQ(run.state.data_position, 1);
  EXPECT_EQ(result.losses.back().name, "Loss/total_loss");
  EXPECT_FLOAT_EQ(result.losses[result.losses.size() - 2].value.item<float>(), 3e38f) << "the scale of this step";
  EXPECT_FALSE(std::isfinite(result.gradient_norm.item<double>()));
  auto after = state_of(run.state);
  EXPECT_FLOAT_EQ(after.at("loss_scale/scale").item<float>(), 1.5e38f);
  before.erase("loss_scale/scale");
  for (const auto& [name, tensor] : before) EXPECT_TRUE(at::equal(after.at(name), tensor)) << name;
  for (int i = 0;
       i < 20 && at::equal(state_of(run.state).at("model/net.conv1_weights"), after.at("model/net.conv1_weights")); ++i)
    EXPECT_TRUE(train_step(run.state, *source->next(), *run.gradients, {}).ok());
  EXPECT_FALSE(at::equal(state_of(run.state).at("model/net.conv1_weights"), after.at("model/net.conv1_weights")));
}

TEST(LossScale, AnOverflowLeavesTheStepOutAndTheRunGoesOn) {
  for (const char* optimizer : {ToyRun::kMomentum, ToyRun::kAdam}) {
    expect_left_out(optimizer);
    const kernels::device::Emulation emulation;
    expect_left_out(optimizer);
  }
}

TEST(LossScale, WhatIsStillNotFiniteAtTheLeastEndsTheRun) {
  ToyRun run({});
  run.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 2 * LossScale::kLeast}, at::kCPU);
  Batch batch = *make_toy_source(4)->next();
  batch.images = batch.images.to(at::kFloat).fill_(NAN);
  EXPECT_TRUE(train_step(run.state, batch, *run.gradients, {}).ok());
  EXPECT_FALSE(train_step(run.state, batch, *run.gradients, {}).ok());
}

TEST(LossScale, Float16WithItIsCloseToFloat32) {
  const auto train = [](Precision precision, bool scaled) {
    ToyRun run({});
    if (scaled) run.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 16}, at::kCPU);
    const auto source = make_toy_source(4);
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(train_step(run.state, *source->next(), *run.gradients, {.precision = precision}).ok());
    if (scaled) {
      EXPECT_EQ(value(*run.state.loss_scale), 16) << "a step was left out";
    }
    return state_of(run.state);
  };
  const auto exact = train(Precision::kFloat32, false), rough = train(Precision::kFloat16, true);
  double moved = 0;
  for (const auto& [name, tensor] : exact) {
    if (!name.starts_with("model/")) continue;
    expect_close(rough.at(name), tensor, 5e-3, 2e-2, name);
    moved += at::equal(rough.at(name), tensor) ? 0 : 1;
  }
  EXPECT_GT(moved, 0) << "float16 has to differ";
}

TEST(LossScale, CheckpointsGoFromOnePrecisionToAnother) {
  ToyRun with({}), without({});
  with.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 64}, at::kCPU);
  const auto source = make_toy_source(4);
  train_step(with.state, *source->next(), *with.gradients, {.precision = Precision::kFloat16});
  restore(without.state, snapshot(with.state), "fp16");
  EXPECT_EQ(without.state.step, 1);

  ToyRun back({});
  back.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 8}, at::kCPU);
  restore(back.state, snapshot(without.state), "fp32");
  EXPECT_EQ(value(*back.state.loss_scale), 8) << "it starts with its own";
  restore(back.state, snapshot(with.state), "fp16");
  EXPECT_EQ(value(*back.state.loss_scale), 64) << "and goes on with that of the run";
}

}  // namespace
}  // namespace osprey::train
