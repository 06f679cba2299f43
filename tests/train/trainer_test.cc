#include "osprey/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/protos/optimizer.pb.h"
#include "support/temp_dir.h"
#include "train/poisoned_source.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::parts_of;
using osprey::testing::PoisonedSource;
using osprey::testing::resume;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Recorder final : public Hook {
 public:
  void after_step(const StepEvent& event) override {
    steps.push_back(event.state.step);
    last.push_back(event.last);
    losses.push_back(event.result.losses.back().value.item<double>());
  }
  void after_evaluation(const EvaluationEvent& event) override { evaluated.push_back(event.state.step); }
  std::vector<int64_t> steps, evaluated;
  std::vector<bool> last;
  std::vector<double> losses;
};

TEST(Trainer, TrainsToATotalOfSteps) {
  ToyRun toy({});
  const auto source = make_toy_source(4);
  Recorder recorder;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&recorder};
  EXPECT_EQ(run(parts, {.num_steps = 3}).steps, 3);
  EXPECT_THAT(recorder.steps, ElementsAre(1, 2, 3));
  EXPECT_THAT(recorder.last, ElementsAre(false, false, true));
  const RunOutcome again = run(parts, {.num_steps = 3});
  EXPECT_TRUE(again.already_done);
  EXPECT_EQ(again.steps, 0);
  EXPECT_EQ(run(parts, {.num_steps = 5}).steps, 2);
}

TEST(Trainer, LearnsTheToyTask) {
  ToyRun toy({});
  const auto source = make_toy_source(16);
  Recorder recorder;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&recorder};
  run(parts, {.num_steps = 60});
  EXPECT_LT(recorder.losses.back(), 0.7 * recorder.losses.front());
}

TEST(Trainer, SavesEvaluatesAndKeepsTheBest) {
  const TempDir folder;
  ToyRun toy({});
  const auto source = make_toy_source(4);
  checkpoint::Directory checkpoints(folder.path(), {.keep_last = 2});
  checkpoint::BestKeeper best(folder.path(), {.metric = "score"});
  Recorder recorder;
  TrainerParts parts = parts_of(toy, *source);
  parts.checkpoints = &checkpoints;
  parts.best = &best;
  parts.hooks = {&recorder};
  parts.evaluate = [](const TrainState& state) { return Metrics{{"score", state.step == 4 ? 1.0 : 0.1}}; };
  run(parts, {.num_steps = 9, .checkpoint_every_n = 2});
  EXPECT_THAT(recorder.evaluated, ElementsAre(2, 4, 6, 8, 9));
  EXPECT_EQ(checkpoint::latest(folder.path())->step, 9);
  EXPECT_EQ(checkpoint::latest(folder.path() / "best")->step, 4);
  EXPECT_EQ(checkpoint::list(folder.path()).size(), 2u);
}

/// Takes its time for the first so many batches.
class SlowSource final : public data::BatchSource {
 public:
  SlowSource(data::BatchSource& source, int64_t milliseconds, int64_t batches)
      : source_(source), milliseconds_(milliseconds), batches_(batches) {}
  std::optional<Batch> next() override {
    if (source_.position() < batches_) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    return source_.next();
  }
  void seek(int64_t index) override { source_.seek(index); }
  int64_t position() const override { return source_.position(); }
  int64_t num_examples() const override { return source_.num_examples(); }

 private:
  data::BatchSource& source_;
  int64_t milliseconds_, batches_;
};

TEST(Trainer, SavesWhenEnoughTimeHasGoneBy) {
  const auto saved = [](double seconds) {
    const TempDir folder;
    ToyRun toy({});
    const auto fast = make_toy_source(4);
    SlowSource source(*fast, 20, 5);
    checkpoint::Directory checkpoints(folder.path(), {.keep_last = 9});
    TrainerParts parts = parts_of(toy, source);
    parts.checkpoints = &checkpoints;
    run(parts, {.num_steps = 5, .checkpoint_every_n = 0, .checkpoint_every_secs = seconds});
    std::vector<int64_t> steps;
    for (const auto& entry : checkpoint::list(folder.path())) steps.push_back(entry.step);
    return steps;
  };
  EXPECT_THAT(saved(0.01), ElementsAre(1, 2, 3, 4, 5)) << "every step takes longer";
  EXPECT_THAT(saved(3600), ElementsAre(5));
  EXPECT_THAT(saved(0), ElementsAre(5));
}

TEST(Trainer, TheTimeOfAnEvaluationIsNoReasonToSaveAgain) {
  const TempDir folder;
  ToyRun toy({});
  const auto fast = make_toy_source(4);
  SlowSource source(*fast, 1100, 1);
  checkpoint::Directory checkpoints(folder.path(), {.keep_last = 9});
  TrainerParts parts = parts_of(toy, source);
  parts.checkpoints = &checkpoints;
  std::vector<int64_t> evaluated;
  parts.evaluate = [&](const TrainState& state) {
    evaluated.push_back(state.step);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    return Metrics{};
  };
  run(parts, {.num_steps = 4, .checkpoint_every_n = 0, .checkpoint_every_secs = 1});
  EXPECT_THAT(evaluated, ElementsAre(1, 4));
}

/// The steps after which a run is evaluated.
std::vector<int64_t> evaluations(const TrainerOptions& options) {
  ToyRun toy({});
  const auto source = make_toy_source(4);
  Recorder recorder;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&recorder};
  parts.evaluate = [](const TrainState&) { return Metrics{}; };
  run(parts, options);
  return recorder.evaluated;
}

TEST(Trainer, EvaluationHasItsOwnRhythmWhereAsked) {
  EXPECT_THAT(evaluations({.num_steps = 8, .checkpoint_every_n = 2, .eval_every_n = 3}), ElementsAre(3, 6, 8));
}

TEST(Trainer, EvaluationBeginsWhereAskedAndIsMadeAtTheEndInAnyCase) {
  EXPECT_THAT(evaluations({.num_steps = 8, .checkpoint_every_n = 2, .eval_from = 5}), ElementsAre(6, 8));
  EXPECT_THAT(evaluations({.num_steps = 8, .checkpoint_every_n = 2, .eval_every_n = 3, .eval_from = 6}),
              ElementsAre(6, 8));
  EXPECT_THAT(evaluations({.num_steps = 4, .checkpoint_every_n = 2, .eval_every_n = 1, .eval_from = 9}),
              ElementsAre(4));
}

TEST(Trainer, EvaluatingChangesNothingInTheRun) {
  const auto weights = [](bool evaluating) {
    ToyRun toy({.dropout = 0.2});
    const auto source = make_toy_source(4);
    TrainerParts parts = parts_of(toy, *source);
    if (evaluating)
      parts.evaluate = [](const TrainState& state) {
        state.model->eval();
        const at::NoGradGuard no_gradients;
        state.model->predict(state.model->preprocess(*make_toy_source(2)->next()));
        return Metrics{};
      };
    run(parts, {.num_steps = 6, .checkpoint_every_n = 2});
    return snapshot(toy.state).tensors;
  };
  const auto with = weights(true), without = weights(false);
  for (const auto& [name, tensor] : with) EXPECT_TRUE(at::equal(tensor, without.at(name))) << name;
}

TEST(Trainer, ASignalEndsTheRunWithACheckpoint) {
  const TempDir folder;
  ToyRun toy({});
  const auto source = make_toy_source(4);
  checkpoint::Directory checkpoints(folder.path(), {});
  TrainerParts parts = parts_of(toy, *source);
  parts.checkpoints = &checkpoints;
  parts.signal = [&] { return toy.state.step >= 3 ? 15 : 0; };
  const RunOutcome outcome = run(parts, {.num_steps = 100});
  EXPECT_EQ(outcome.signal, 15);
  EXPECT_EQ(checkpoint::latest(folder.path())->step, 3);
}

/// Runs of the toy in one folder, each resumed from what the last has left, that keep the checkpoint of the best score:
/// that of step 4.
struct RunsThatKeepTheBest {
  /// interrupt_in  the step in whose evaluation the run is killed, or gets a signal
  RunOutcome run(const TrainerOptions& options, int64_t interrupt_in, int signal = 0) {
    ToyRun toy({});
    const auto source = make_toy_source(4);
    resume(toy, *source, folder.path());
    checkpoint::Directory checkpoints(folder.path(), {});
    checkpoint::BestKeeper best(folder.path(), {.metric = "score"});
    TrainerParts parts = parts_of(toy, *source);
    parts.checkpoints = &checkpoints;
    parts.best = &best;
    int received = 0;
    parts.signal = [&] { return received; };
    parts.evaluate = [&](const TrainState& state) -> std::optional<Metrics> {
      if (state.step == interrupt_in) {
        if (signal == 0) throw std::runtime_error("killed");
        received = signal;
        return std::nullopt;
      }
      evaluated.push_back(state.step);
      return Metrics{{"score", state.step == 4 ? 1.0 : 0.1}};
    };
    LastEvaluation last_evaluation(folder.path(), toy.state.step);
    parts.last_evaluation = &last_evaluation;
    return train::run(parts, options);
  }
  int64_t newest() const { return checkpoint::latest(folder.path())->step; }
  int64_t best() const { return checkpoint::latest(folder.path() / "best")->step; }

  TempDir folder;
  std::vector<int64_t> evaluated;
};

TEST(Trainer, AnEvaluationThatWasLostIsMadeBeforeTheRunGoesOn) {
  for (const int64_t every : {0, 4}) {  // at every checkpoint, or at a step that has none
    RunsThatKeepTheBest runs;
    const TrainerOptions options{.num_steps = 9, .checkpoint_every_n = every == 0 ? 2 : 50, .eval_every_n = every};
    EXPECT_THROW(runs.run(options, 4), std::runtime_error);
    EXPECT_EQ(runs.newest(), 4);
    EXPECT_EQ(runs.run(options, 0).steps, 5);
    EXPECT_EQ(runs.best(), 4);
    EXPECT_EQ(runs.evaluated, every == 0 ? std::vector<int64_t>({2, 4, 6, 8, 9}) : std::vector<int64_t>({4, 8, 9}));
  }
}

TEST(Trainer, TheEvaluationOfTheLastStepIsMadeWhereItWasLost) {
  RunsThatKeepTheBest runs;
  const TrainerOptions options{.num_steps = 4, .checkpoint_every_n = 3};
  EXPECT_THROW(runs.run(options, 4), std::runtime_error);
  const RunOutcome outcome = runs.run(options, 0);
  EXPECT_TRUE(outcome.already_done);
  EXPECT_EQ(outcome.steps, 0);
  EXPECT_EQ(runs.best(), 4);
  runs.run(options, 0);
  runs.run({.num_steps = 2}, 0);
  EXPECT_THAT(runs.evaluated, ElementsAre(3, 4)) << "once";
}

TEST(Trainer, ASignalInAnEvaluationEndsTheRunThere) {
  for (const int64_t every : {2, 50}) {
    RunsThatKeepTheBest runs;
    const TrainerOptions options{.num_steps = 9, .checkpoint_every_n = every, .eval_every_n = 2};
    const RunOutcome outcome = runs.run(options, 4, 15);
    EXPECT_EQ(outcome.signal, 15);
    EXPECT_EQ(outcome.steps, 4) << "no further step";
    EXPECT_EQ(runs.newest(), 4);
    EXPECT_EQ(runs.best(), 2);
    EXPECT_EQ(runs.run(options, 0).steps, 5);
    EXPECT_EQ(runs.best(), 4);
    EXPECT_THAT(runs.evaluated, ElementsAre(2, 4, 6, 8, 9));
  }
}

/// Counts how often it is told that the run ends without a last step.
class Ended final : public Hook {
 public:
  void after_step(const StepEvent&) override {}
  void after_going_back(const TrainState& state) override { at.push_back(state.step); }
  std::vector<int64_t> at;
};

TEST(Trainer, ASignalInAnEvaluationIsObeyedWithACheckpointWhereNoneWasDue) {
  const TempDir folder;
  ToyRun toy({});
  const auto source = make_toy_source(4);
  checkpoint::Directory checkpoints(folder.path(), {});
  Ended ended;
  TrainerParts parts = parts_of(toy, *source);
  parts.checkpoints = &checkpoints;
  parts.hooks = {&ended};
  int received = 0;
  parts.signal = [&] { return received; };
  parts.evaluate = [&](const TrainState&) {
    received = 2;
    return std::nullopt;
  };
  EXPECT_EQ(run(parts, {.num_steps = 9, .checkpoint_every_n = 50, .eval_every_n = 3}).signal, 2);
  EXPECT_EQ(checkpoint::latest(folder.path())->step, 3);
  EXPECT_THAT(ended.at, ElementsAre(3)) << "what it has not written yet is to be written";
}

TEST(Trainer, ResumesBitForBitFromACheckpoint) {
  const TempDir folder;
  const osprey::testing::ToyOptions options = {.dropout = 0.3};
  ToyRun whole(options), first(options), second(options);
  {
    const auto source = make_toy_source(4);
    run(parts_of(whole, *source), {.num_steps = 12});
  }
  {
    const auto source = make_toy_source(4);
    checkpoint::Directory checkpoints(folder.path(), {});
    TrainerParts parts = parts_of(first, *source);
    parts.checkpoints = &checkpoints;
    run(parts, {.num_steps = 7});
  }
  const auto file = checkpoint::latest(folder.path())->file;
  restore(second.state, checkpoint::read(file), file.string());
  EXPECT_EQ(second.state.step, 7);
  const auto source = make_toy_source(4);
  source->seek(second.state.data_position);
  run(parts_of(second, *source), {.num_steps = 12});
  const auto expected = snapshot(whole.state).tensors, found = snapshot(second.state).tensors;
  ASSERT_EQ(expected.size(), found.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::equal(tensor, found.at(name))) << name;
}

TEST(Trainer, AnotherOptimizerIsNotResumed) {
  ToyRun momentum({});
  ToyRun adam({}, "adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.1 } } }");
  const auto content = snapshot(momentum.state);
  EXPECT_THAT([&] { restore(adam.state, content, "ckpt-0.osprey"); },
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr("ckpt-0.osprey"), HasSubstr("another optimizer"), HasSubstr("Momentum"))));
}

TEST(Trainer, ALossThatIsNotFiniteStopsBeforeTheUpdate) {
  PoisonedSource source(2);
  ToyRun toy({});
  TrainerParts parts = parts_of(toy, source);
  parts.nan_report = [](const TrainState& state, const Batch& batch, const StepResult& result) {
    EXPECT_EQ(state.step, 2);
    EXPECT_EQ(batch.ids.front(), "toy-4");
    EXPECT_FALSE(result.ok());
    return std::string("somewhere");
  };
  EXPECT_THAT([&] { run(parts, {.num_steps = 10}); },
              ThrowsMessage<DivergedError>(
                  AllOf(HasSubstr("LossTensor is inf or nan."), HasSubstr("Step 2"), HasSubstr("somewhere"))));
}

/// Asks for an operation of which libtorch has no deterministic form, on a CPU either.
class Unordered final : public Hook {
 public:
  void after_step(const StepEvent&) override { at::zeros({4}).put_(at::tensor({1, 1}), at::tensor({2.f, 3.f})); }
};

TEST(Trainer, AnOperationWithoutADeterministicFormIsNamedWhereAllHaveToBe) {
  ToyRun toy({});
  const auto source = make_toy_source(2);
  Unordered unordered;
  TrainerParts parts = parts_of(toy, *source);
  parts.hooks = {&unordered};
  const bool before = at::globalContext().deterministicAlgorithms(),
             only_warned = at::globalContext().deterministicAlgorithmsWarnOnly();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_THAT([&] { run(parts, {.num_steps = 1}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.deterministic"), HasSubstr("put_"))));
  at::globalContext().setDeterministicAlgorithms(before, only_warned);
}

TEST(Trainer, AFiniteSourceThatEndsEarlyIsReported) {
  ToyRun toy({});
  const auto source = make_toy_source(2, 0, /*finite_batches=*/2);
  EXPECT_THAT([&] { run(parts_of(toy, *source), {.num_steps = 10}); },
              ThrowsMessage<DataError>(HasSubstr("ended after batch 2")));
}

TEST(Trainer, AReaderThatEndsEndsTheRun) {
  EXPECT_EQ(steps_within(100, 30), 30);
  EXPECT_EQ(steps_within(100, 300), 100);
  EXPECT_EQ(steps_within(0, 30), 30);
  EXPECT_EQ(steps_within(100, 0), 100);
}

TEST(Trainer, EpochsAreRoundedUpToSteps) {
  EXPECT_EQ(steps_for(320, 500, 8), 20000);
  EXPECT_EQ(steps_for(1, 10, 4), 3);
}

TEST(CheckSchedule, AScheduleThatIsOverIsAnErrorAndItsExactEndIsNot) {
  const auto config = config::parse<proto::LearningRate>(
      "cosine_decay_learning_rate { learning_rate_base: 0.1 total_steps: 100 warmup_steps: 10 }");
  const auto rate = optim::build_learning_rate(config.node());
  EXPECT_NO_THROW(check_schedule(*rate, 0, 100));
  EXPECT_NO_THROW(check_schedule(*rate, 99, 100));
  EXPECT_THAT([&] { check_schedule(*rate, 101, 200); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("100"), HasSubstr("rate 0"))));
}

}  // namespace
}  // namespace osprey::train
