#include "osprey/train/step.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/core/batch.h"
#include "support/golden.h"
#include "support/toy_model.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::expect_close;
using osprey::testing::make_toy_source;
using osprey::testing::ToyOptions;
using osprey::testing::ToyRun;

std::vector<at::Tensor> values(const models::DetectionModel& model) {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : models::variables(model)) result.push_back(tensor.detach().clone());
  return result;
}

/// The weights after `steps` steps with batches of eight, each in `parts` parts.
std::vector<at::Tensor> trained(const ToyOptions& options, int64_t parts, int64_t steps) {
  ToyRun run(options);
  const auto source = make_toy_source(8);
  for (int64_t i = 0; i < steps; ++i)
    EXPECT_TRUE(train_step(run.state, *source->next(), *run.gradients, {.micro_batches = parts}).ok());
  return values(*run.state.model);
}

TEST(TrainStep, ABatchOfEightEqualsTwoTimesFourWithDropoutAndIgnoredAnchors) {
  // With frozen batch norm and dropout keyed by example nothing in an image depends on its batch, so the sums differ by
  // rounding alone; 1e-5 relative over 20 steps is what is promised for any split.
  const ToyOptions options = {.dropout = 0.3, .frozen_batch_norm = true};
  const auto whole = trained(options, 1, 20);
  for (int64_t parts : {2, 4, 8}) {
    const auto split = trained(options, parts, 20);
    for (size_t i = 0; i < whole.size(); ++i)
      expect_close(split[i], whole[i], 1e-5, 1e-6, "variable " + std::to_string(i));
  }
}

TEST(TrainStep, TheHalvesOfABatchAreSummedAndNotAveraged) {
  // One half of this batch has no boxes: a mean of the halves' losses would weigh its classification loss differently.
  const auto loss = [](int64_t parts) {
    ToyRun run({.frozen_batch_norm = true});
    Batch batch = *make_toy_source(4)->next();
    batch.valid.slice(0, 2).fill_(false);
    return train_step(run.state, batch, *run.gradients, {.micro_batches = parts}).losses.back().value.item<double>();
  };
  EXPECT_NEAR(loss(2), loss(1), 1e-5);
}

TEST(TrainStep, RepeatsItselfBitForBit) {
  const auto first = trained({.dropout = 0.3}, 2, 5), second = trained({.dropout = 0.3}, 2, 5);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

TEST(TrainStep, ABatchWithoutAnyBoxIsDividedByOne) {
  ToyRun run({.frozen_batch_norm = true, .weight_decay = 0});
  Batch batch = *make_toy_source(2)->next();
  batch.valid.fill_(false);
  const GradientSums sums = accumulate_gradients(*run.state.model, batch, {});
  EXPECT_EQ(sums.normalizer.item<float>(), 0);
  const StepResult result = train_step(run.state, batch, *run.gradients, {});
  EXPECT_TRUE(result.ok());
  EXPECT_FLOAT_EQ(result.losses.back().value.item<float>(),
                  sums.terms[0].value.item<float>() + sums.terms[1].value.item<float>());
}

TEST(TrainStep, RegularisationIsAddedOnceAndNotDivided) {
  ToyRun with({.weight_decay = 0.5}), without({.weight_decay = 0});
  const Batch batch = *make_toy_source(4)->next();
  const double penalty = with.state.model->regularization_loss().item<double>();
  const StepResult a = train_step(with.state, batch, *with.gradients, {.micro_batches = 2});
  const StepResult b = train_step(without.state, batch, *without.gradients, {.micro_batches = 2});
  EXPECT_NEAR(a.losses.back().value.item<double>() - b.losses.back().value.item<double>(), penalty, 1e-4);
  EXPECT_EQ(a.losses[a.losses.size() - 2].name, "Loss/regularization_loss");
}

TEST(TrainStep, AStepThatIsNotFiniteChangesNothing) {
  ToyRun run({});
  const auto source = make_toy_source(4);
  train_step(run.state, *source->next(), *run.gradients, {});
  std::map<std::string, at::Tensor> before;
  for (const auto& [name, tensor] : snapshot(run.state).tensors) before[name] = tensor.detach().clone();
  Batch batch = *source->next();
  batch.images = batch.images.to(at::kFloat);
  batch.images[0][0][0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(train_step(run.state, batch, *run.gradients, {}).ok());
  EXPECT_EQ(run.state.step, 1);
  run.state.model->commit_statistics();  // nothing may be pending
  for (const auto& [name, tensor] : snapshot(run.state).tensors)
    EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
}

TEST(TrainStep, Bfloat16IsCloseToFloat32) {
  // bfloat16 has eight bits: 2^-8 = 0.4 % per operation.
  const auto loss = [](Precision precision) {
    ToyRun run({});
    const Batch batch = *make_toy_source(4)->next();
    return train_step(run.state, batch, *run.gradients, {.precision = precision}).losses.back().value.item<double>();
  };
  const double exact = loss(Precision::kFloat32), rough = loss(Precision::kBfloat16);
  EXPECT_NE(exact, rough);
  EXPECT_NEAR(rough, exact, 0.02 * std::abs(exact));
}

TEST(TrainStep, ABatchThatCannotBeSplitIsRefused) {
  ToyRun run({});
  EXPECT_THROW(train_step(run.state, *make_toy_source(4)->next(), *run.gradients, {.micro_batches = 3}), c10::Error);
}

TEST(TrainStep, ChannelsLastKeepsTheValues) {
  ToyRun run({});
  const auto before = values(*run.state.model);
  to_channels_last(*run.state.model);
  const auto after = values(*run.state.model);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i]));
}

}  // namespace
}  // namespace osprey::train
