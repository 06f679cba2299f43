// Runs that go on without the batches whose loss is not finite (train_config.on_nan).
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "osprey/base/error.h"
#include "osprey/core/batch.h"
#include "osprey/kernels/device.h"
#include "osprey/train/progress_hook.h"
#include "osprey/train/trainer.h"
#include "support/temp_dir.h"
#include "train/on_replicas.h"
#include "train/poisoned_source.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using kernels::device::Emulation;
using osprey::testing::expect_well;
using osprey::testing::make_toy_source;
using osprey::testing::on_replicas;
using osprey::testing::parts_of;
using osprey::testing::PoisonedSource;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The toy source with these batches poisoned.
std::unique_ptr<data::BatchSource> poisoned(const std::vector<int64_t>& bad) {
  std::unique_ptr<data::BatchSource> source = make_toy_source(2);
  for (const int64_t batch : bad) source = std::make_unique<PoisonedSource>(batch, std::move(source));
  return source;
}

std::map<std::string, at::Tensor> tensors_of(const TrainState& state) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : snapshot(state).tensors) result[name] = tensor.detach().clone();
  return result;
}

void expect_same_bits(const std::map<std::string, at::Tensor>& found,
                      const std::map<std::string, at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
}

/// The state after `steps` steps of which those with the batches `bad` are not made at all.
std::map<std::string, at::Tensor> without(const std::vector<int64_t>& bad, int64_t steps, const StepOptions& options) {
  ToyRun toy({.dropout = 0.3});
  const auto source = make_toy_source(2);
  for (int64_t i = 0; i < steps; ++i) {
    Batch batch = *source->next();
    batch.images = batch.images.to(at::kFloat);
    if (std::ranges::count(bad, i) > 0)
      count_step(toy.state);
    else
      train_step(toy.state, batch, *toy.gradients, options);
  }
  return tensors_of(toy.state);
}

/// The steps that hooks have seen last, and what was logged.
struct Seen final : Hook {
  void after_step(const StepEvent& event) override {
    steps.push_back(event.state.step);
    progress.after_step(event);
  }
  void after_going_back(const TrainState& state) override {
    std::erase_if(steps, [&](int64_t step) { return step > state.step; });
    progress.after_going_back(state);
  }
  std::vector<int64_t> steps;
  std::vector<LogRecord> log;
  ProgressHook progress{5, 0, {[this](const LogRecord& record) { log.push_back(record); }}};
};

constexpr int64_t kLength = 20;
const std::vector<int64_t> kPoisoned = {3, 4, 9, 12};

/// Makes a run without the bad batches and compares it with one that never saw them.
void expect_goes_on(const StepOptions& step, int64_t look_every_n) {
  ToyRun toy({.dropout = 0.3});
  const auto source = poisoned(kPoisoned);
  Seen seen;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&seen};
  std::vector<int64_t> reported;
  parts.nan_report = [&](const TrainState& state, const Batch& batch, const StepResult& result) {
    reported.push_back(state.step);
    EXPECT_EQ(batch.ids.front(), "toy-" + std::to_string(2 * state.step));
    EXPECT_FALSE(std::isfinite(result.losses.back().value.item<double>()));
    return std::string();
  };
  const RunOutcome outcome = run(parts, {.num_steps = kLength,
                                         .checkpoint_every_n = 0,
                                         .look_every_n = look_every_n,
                                         .max_skipped_in_a_row = 2,
                                         .step = step});
  EXPECT_EQ(outcome.steps, kLength);
  EXPECT_EQ(toy.state.step, kLength);
  EXPECT_EQ(toy.state.data_position, kLength);
  EXPECT_EQ(toy.state.skipped.total, 4);
  EXPECT_EQ(toy.state.skipped.in_a_row, 1);
  EXPECT_EQ(toy.state.skipped.last_step, 12);
  EXPECT_THAT(reported, ElementsAre(3)) << "the first one alone";
  for (int64_t i = 0; i < kLength; ++i) EXPECT_EQ(seen.steps.at(i), i + 1);
  EXPECT_EQ(seen.steps.size(), kLength);
  ASSERT_EQ(seen.log.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(seen.log[i].step, 5 * (static_cast<int64_t>(i) + 1));
  EXPECT_THAT((std::vector{seen.log[0].skipped_batches, seen.log[1].skipped_batches, seen.log[2].skipped_batches}),
              ElementsAre(2, 3, 4));
  EXPECT_TRUE(std::isnan(seen.log[0].losses.back().second)) << "the last batch before this line was left out";
  EXPECT_TRUE(std::isfinite(seen.log[2].losses.back().second));
  expect_same_bits(tensors_of(toy.state), without(kPoisoned, kLength, step));
}

TEST(SkipBatch, TheRunGoesOnAsIfTheBatchHadChangedNothing) {
  expect_goes_on({}, 1);
  expect_goes_on({.micro_batches = 2}, 1);
}

TEST(SkipBatch, ADeviceThatIsAskedLateMakesTheStepsAfterTheBatchAgain) {
  const Emulation emulation;
  for (const int64_t look_every_n : {1, 5}) expect_goes_on({}, look_every_n);
  expect_goes_on({.micro_batches = 2}, 5);
}

TEST(SkipBatch, ADeviceIsAskedSoSoonThatItMakesFewStepsAgain) {
  const Emulation emulation;
  ToyRun toy({});
  const auto source = poisoned({3});
  struct Count final : Hook {
    void after_step(const StepEvent&) override { ++steps; }
    int64_t steps = 0;
  } count;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&count};
  run(parts, {.num_steps = 60, .checkpoint_every_n = 0, .look_every_n = 97, .max_skipped_in_a_row = 1});
  // Asked after 10 steps, it answers with the 11th: back after the 4th, which was the bad one, and on with 56.
  EXPECT_EQ(count.steps, 10 + 56);
}

/// A run with these bad batches, of which two in a row are left out.
void run_with(const std::vector<int64_t>& bad, TrainState* state = nullptr) {
  ToyRun toy({});
  const auto source = poisoned(bad);
  run(parts_of(toy, *source), {.num_steps = 12, .look_every_n = 4, .max_skipped_in_a_row = 2});
  if (state != nullptr) *state = toy.state;
}

void expect_limit() {
  TrainState state;
  run_with({1, 2, 4, 5, 7, 8}, &state);
  EXPECT_EQ(state.skipped.total, 6) << "however many, as long as they are not in a row";
  EXPECT_THAT(
      [] {
        run_with({1, 5, 6, 7});
      },
      ThrowsMessage<DivergedError>(AllOf(HasSubstr("LossTensor is inf or nan. Step 7 was not applied"),
                                         HasSubstr("nor were the 2 before it"),
                                         HasSubstr("train_config.on_nan.max_skipped_in_a_row"))));
}

TEST(SkipBatch, OneMoreInARowThanAllowedEndsTheRun) {
  expect_limit();
  const Emulation emulation;
  expect_limit();
}

TEST(SkipBatch, WhatHasBeenLeftOutBeforeAResumeCountsOn) {
  const std::vector<int64_t> bad = {2, 4, 5, 6};
  const TempDir folder;
  ToyRun whole({.dropout = 0.3}), first({.dropout = 0.3}), second({.dropout = 0.3});
  const auto source = poisoned(bad), again = poisoned(bad);
  run(parts_of(whole, *source), {.num_steps = 9, .max_skipped_in_a_row = 3});
  checkpoint::Directory checkpoints(folder.path(), {});
  TrainerParts parts = parts_of(first, *again);
  parts.checkpoints = &checkpoints;
  run(parts, {.num_steps = 6, .max_skipped_in_a_row = 3});
  const auto file = checkpoint::latest(folder.path())->file;
  restore(second.state, checkpoint::read(file), file.string());
  EXPECT_EQ(second.state.skipped.total, 3);
  EXPECT_EQ(second.state.skipped.in_a_row, 2);
  again->seek(second.state.data_position);
  EXPECT_THROW(run(parts_of(second, *again), {.num_steps = 9, .max_skipped_in_a_row = 2}), DivergedError);
  again->seek(second.state.data_position);
  run(parts_of(second, *again), {.num_steps = 9, .max_skipped_in_a_row = 3});
  expect_same_bits(tensors_of(second.state), tensors_of(whole.state));
  EXPECT_EQ(snapshot(second.state).attributes, snapshot(whole.state).attributes);
  EXPECT_EQ(snapshot(second.state).attributes.at("skipped_batches"), "4");
}

TEST(SkipBatch, ACheckpointAndAnEvaluationThatAreDueAfterTheBatchAreMade) {
  const auto evaluated = [] {
    const TempDir folder;
    ToyRun toy({});
    const auto source = poisoned({3, 7});
    checkpoint::Directory checkpoints(folder.path(), {});
    TrainerParts parts = parts_of(toy, *source);
    parts.checkpoints = &checkpoints;
    std::vector<int64_t> steps;
    parts.evaluate = [&](const TrainState& state) {
      steps.push_back(state.step);
      return Metrics{};
    };
    run(parts, {.num_steps = 8, .checkpoint_every_n = 4, .look_every_n = 3, .max_skipped_in_a_row = 1});
    EXPECT_EQ(checkpoint::list(folder.path()).size(), 2u);
    return steps;
  };
  EXPECT_THAT(evaluated(), ElementsAre(4, 8));
  const Emulation emulation;
  EXPECT_THAT(evaluated(), ElementsAre(4, 8));
}

TEST(SkipBatch, AnOverflowOfTheLossScaleDoesNotCount) {
  ToyRun toy({});
  toy.state.loss_scale = std::make_shared<LossScale>(LossScaleOptions{.initial = 3e38}, at::kCPU);
  const auto source = make_toy_source(2);
  run(parts_of(toy, *source), {.num_steps = 3, .max_skipped_in_a_row = 1});
  EXPECT_LT(toy.state.loss_scale->value().item<float>(), 2e38f) << "there was one";
  EXPECT_EQ(toy.state.skipped.total, 0);
  EXPECT_EQ(snapshot(toy.state).attributes.count("skipped_batches"), 0u);
}

TEST(SkipBatch, ReplicasLeaveOutTheSame) {
  std::map<std::string, at::Tensor> states[2];
  expect_well(on_replicas(2, [&](Replicas& replicas) {
    ToyRun toy({.frozen_batch_norm = true});
    std::vector<at::Tensor> parameters = toy.state.model->parameters();
    GradientSum sum(replicas, parameters, {});
    const auto source = poisoned(replicas.rank() == 1 ? std::vector<int64_t>{2} : std::vector<int64_t>{4, 5});
    TrainerParts parts = parts_of(toy, *source);
    parts.replicas = &replicas;
    run(parts, {.num_steps = 8, .max_skipped_in_a_row = 2, .step = {.replicas = &sum}});
    EXPECT_EQ(toy.state.skipped.total, 3);
    EXPECT_EQ(toy.state.skipped.last_step, 5);
    states[replicas.rank()] = tensors_of(toy.state);
  }));
  expect_same_bits(states[1], states[0]);
}

}  // namespace
}  // namespace osprey::train
