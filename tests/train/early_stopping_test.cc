// Runs that end when their evaluations no longer improve.
#include "osprey/train/early_stopping.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "osprey/base/error.h"
#include "osprey/train/job.h"
#include "osprey/train/trainer.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::parts_of;
using osprey::testing::read_file;
using osprey::testing::resume;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The reason after evaluations at the steps 1, 2, ...; "" while the run goes on.
std::string reason(const checkpoint::MetricGoal& goal, int64_t patience, const std::vector<double>& values,
                   std::optional<double> target = {}) {
  const TempDir folder;
  EarlyStopping stopping(folder.path(), goal, patience, 0, target);
  for (size_t i = 0; i < values.size(); ++i) stopping.add(static_cast<int64_t>(i) + 1, values[i]);
  return stopping.reason();
}

TEST(EarlyStopping, EndsAfterSoManyEvaluationsWithoutAnImprovement) {
  const checkpoint::MetricGoal goal{.metric = "score"};
  EXPECT_EQ(reason(goal, 2, {}), "");
  EXPECT_EQ(reason(goal, 2, {0.1, 0.5, 0.4}), "");
  EXPECT_EQ(reason(goal, 2, {0.1, 0.5, 0.4, 0.6}), "");
  EXPECT_EQ(reason(goal, 2, {0.1, 0.5, 0.4, 0.5}),
            "in 2 evaluations score has not improved on the best so far, 0.5000 at step 2");
}

TEST(EarlyStopping, DoesNotEndWhileTheMetricImproves) {
  EXPECT_EQ(reason({.metric = "score"}, 1, {0.1, 0.2, 0.3, 0.4}), "");
  EXPECT_EQ(reason({.metric = "loss", .higher_is_better = false}, 1, {4, 3, 2, 1}), "");
  EXPECT_THAT(reason({.metric = "loss", .higher_is_better = false}, 1, {4, 3, 3.5}), HasSubstr("3.0000 at step 2"));
}

TEST(EarlyStopping, WhatIsBetterByTooLittleIsNoImprovement) {
  // Each value is above the one before by 0.05, but none above 0.5 by more than 0.125 until the fourth.
  const std::vector<double> values = {0.5, 0.55, 0.6, 0.65};
  const checkpoint::MetricGoal goal{.metric = "score", .min_delta = 0.125};
  EXPECT_EQ(reason(goal, 3, values), "");
  EXPECT_EQ(reason(goal, 2, {0.5, 0.55, 0.6}),
            "in 2 evaluations score has not improved by more than 0.125 on the best so far, 0.5000 at step 1");
}

TEST(EarlyStopping, EndsWithTheFirstEvaluationThatReachesTheTarget) {
  const checkpoint::MetricGoal score{.metric = "score"}, loss{.metric = "loss", .higher_is_better = false};
  EXPECT_EQ(reason(score, 0, {0.1, 0.6, 0.7}, 0.6), "score has reached 0.6: it is 0.6000 at step 2");
  EXPECT_EQ(reason(loss, 0, {4, 2.5}, 3), "loss has reached 3: it is 2.5000 at step 2");
  EXPECT_EQ(reason(score, 0, {0.5, std::nan(""), 0.4, 0.3}, 0.6), "") << "without patience nothing else ends it";
  EXPECT_THAT(reason(score, 2, {0.5, 0.4, 0.3}, 0.6), HasSubstr("in 2 evaluations score has not improved"));
}

TEST(EarlyStopping, AMetricWithoutAValueIsNoImprovement) {
  EXPECT_EQ(reason({.metric = "score"}, 2, {std::nan(""), std::nan("")}), "in 2 evaluations score has not had a value");
  EXPECT_EQ(reason({.metric = "score"}, 2, {std::nan(""), 0.0}), "");
}

TEST(EarlyStopping, RemembersEvaluationsUpToTheStepWhereTheRunGoesOn) {
  const TempDir folder;
  const checkpoint::MetricGoal goal{.metric = "score"};
  EarlyStopping first(folder.path(), goal, 2, 0);
  first.add(10, 0.5);
  first.add(20, std::nan(""));
  first.add(30, 0.4);
  EXPECT_NE(first.reason(), "");
  EarlyStopping second(folder.path(), goal, 2, 25);
  EXPECT_TRUE(second.has(20));
  EXPECT_FALSE(second.has(30));
  EXPECT_EQ(second.reason(), "");
  second.add(30, 0.3);
  EXPECT_THAT(second.reason(), HasSubstr("0.5000 at step 10"));
  EXPECT_EQ(EarlyStopping(folder.path(), goal, 3, 30).reason(), "") << "more patience goes on";
  EXPECT_FALSE(EarlyStopping(folder.path(), {.metric = "another"}, 2, 30).has(10));
}

TEST(EarlyStopping, ForgetsForGoodWhatTheRunHasGoneBackBehind) {
  const TempDir folder;
  const checkpoint::MetricGoal goal{.metric = "score"};
  EarlyStopping(folder.path(), goal, 2, 0).add(30, 0.5);
  EarlyStopping(folder.path(), goal, 2, 20);
  EXPECT_FALSE(EarlyStopping(folder.path(), goal, 2, 30).has(30));
}

TEST(LastEvaluation, IsKnownToTheRunThatGoesOnUntilItGoesBackBehindIt) {
  const TempDir folder;
  EXPECT_FALSE(LastEvaluation(folder.path(), 10).is_of(10));
  LastEvaluation(folder.path(), 10).set(10);
  EXPECT_TRUE(LastEvaluation(folder.path(), 10).is_of(10));
  EXPECT_FALSE(LastEvaluation(folder.path(), 20).is_of(20));
  EXPECT_FALSE(LastEvaluation(folder.path(), 5).is_of(5));
  EXPECT_FALSE(LastEvaluation(folder.path(), 10).is_of(10)) << "it comes again";
  osprey::testing::write_file(folder / "eval/last_in_training.json", "[10]");
  EXPECT_FALSE(LastEvaluation(folder.path(), 10).is_of(10));
}

TEST(EarlyStopping, AFileThatSomebodyChangedIsNoMemory) {
  const TempDir folder;
  for (const char* content : {"3", "[]", "{\"metric\": 3, \"evaluations\": []}",
                              "{\"metric\": \"score\", \"evaluations\": [{\"step\": \"x\"}, 4]}"}) {
    osprey::testing::write_file(folder.path() / "early_stopping.json", content);
    EXPECT_EQ(EarlyStopping(folder.path(), {.metric = "score"}, 1, 10).reason(), "") << content;
  }
}

/// Runs of the toy in one folder, each resumed from what the last has left; the score is best at step 4.
struct ToyRuns {
  RunOutcome run(TrainerOptions options, const std::function<void(int64_t step)>& while_evaluating = {}) {
    ToyRun toy({});
    const auto source = make_toy_source(4);
    resume(toy, *source, folder.path());
    checkpoint::Directory checkpoints(folder.path(), {});
    EarlyStopping stopping(folder.path(), {.metric = "score"}, 2, toy.state.step);
    TrainerParts parts = parts_of(toy, *source);
    parts.checkpoints = &checkpoints;
    parts.early_stopping = &stopping;
    parts.evaluate = [&](const TrainState& state) {
      evaluated.push_back(state.step);
      if (while_evaluating) while_evaluating(state.step);
      return Metrics{{"score", state.step == 4 ? 1.0 : 0.1}};
    };
    return train::run(parts, options);
  }
  int64_t newest() const { return checkpoint::latest(folder.path())->step; }

  TempDir folder;
  std::vector<int64_t> evaluated;
};

TEST(EarlyStopping, EndsARunWithACheckpointAndWithoutAnotherEvaluation) {
  ToyRuns runs;
  const RunOutcome outcome = runs.run({.num_steps = 100, .checkpoint_every_n = 2});
  EXPECT_TRUE(outcome.stopped_early);
  EXPECT_EQ(outcome.steps, 8);
  EXPECT_EQ(runs.newest(), 8);
  EXPECT_THAT(runs.evaluated, ElementsAre(2, 4, 6, 8));
}

TEST(EarlyStopping, WritesACheckpointWhereNoneWasDue) {
  ToyRuns runs;
  runs.run({.num_steps = 100, .checkpoint_every_n = 50, .eval_every_n = 2});
  EXPECT_EQ(runs.newest(), 8);
}

TEST(EarlyStopping, ARunThatComesToItsLastStepIsNotStoppedEarly) {
  ToyRuns runs;
  EXPECT_FALSE(runs.run({.num_steps = 8, .checkpoint_every_n = 2}).stopped_early);
}

TEST(EarlyStopping, AResumedRunEndsAtTheSameStep) {
  ToyRuns runs;
  EXPECT_FALSE(runs.run({.num_steps = 6, .checkpoint_every_n = 2}).stopped_early);
  EXPECT_TRUE(runs.run({.num_steps = 100, .checkpoint_every_n = 2}).stopped_early);
  EXPECT_EQ(runs.newest(), 8);
  EXPECT_THAT(runs.evaluated, ElementsAre(2, 4, 6, 8));
}

TEST(EarlyStopping, ARunThatIsExtendedEndsWhereALongOneDoes) {
  ToyRuns runs;
  EXPECT_FALSE(runs.run({.num_steps = 7, .checkpoint_every_n = 2}).stopped_early);
  EXPECT_TRUE(runs.run({.num_steps = 100, .checkpoint_every_n = 2}).stopped_early);
  EXPECT_EQ(runs.newest(), 8) << "the evaluation after step 7 was made since the run ended there";
}

TEST(EarlyStopping, AMetricThatNoEvaluationGivesEndsTheRun) {
  const TempDir folder;
  ToyRun toy({});
  const auto source = make_toy_source(4);
  EarlyStopping stopping(folder.path(), {.metric = "Loss/totl_loss"}, 2, 0);
  TrainerParts parts = parts_of(toy, *source);
  parts.early_stopping = &stopping;
  parts.evaluate = [](const TrainState&) { return Metrics{{"score", 1.0}, {"Loss/total_loss", 2.0}}; };
  EXPECT_THAT([&] { train::run(parts, {.num_steps = 4, .eval_every_n = 2}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.early_stopping.metric"),
                                               HasSubstr("no metric Loss/totl_loss"),
                                               HasSubstr("its losses are Loss/total_loss"))));
}

TEST(EarlyStopping, ARunThatWasKilledInAnEvaluationMakesItBeforeItGoesOn) {
  ToyRuns runs;
  const auto kill = [](int64_t step) {
    if (step == 4) throw std::runtime_error("killed");
  };
  EXPECT_THROW(runs.run({.num_steps = 100, .checkpoint_every_n = 2}, kill), std::runtime_error);
  EXPECT_EQ(runs.newest(), 4);
  runs.run({.num_steps = 100, .checkpoint_every_n = 2});
  EXPECT_EQ(runs.newest(), 8);
  EXPECT_THAT(runs.evaluated, ElementsAre(2, 4, 4, 6, 8));
}

/// A training of the quickstart that learns nothing: its first evaluation stays the best.
class TrainingWithoutProgress {
 public:
  TrainingWithoutProgress() {
    EXPECT_EQ(std::system(fmt::format("'{0}/bin/create_records' --format shapes --num_images 6 --label_map "
                                      "'{1}/label_map.pbtxt' --output '{1}/train.record' > /dev/null 2>&1",
                                      OSPREY_BINARY_DIR, folder_.path().string())
                              .c_str()),
              0);
    std::filesystem::copy(folder_ / "train.record", folder_ / "test.record");
  }

  /// The exit code; `log` becomes what the program has said.
  int run(const std::string& more) {
    const std::string command = fmt::format(
        "'{0}/bin/train_detector' --pipeline_config '{1}/configs/quickstart.config' --data_dir '{2}' --model_dir "
        "'{2}/run' --set model.ssd.freeze_batchnorm=true --set "
        "train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate.learning_rate=0 "
        "--train_batch_size 2 --set eval_config.batch_size=2 --eval_every_n 1 --checkpoint_every_n 50 "
        "--set train_config.early_stopping.patience_evaluations=2 {3} > '{2}/log' 2>&1",
        OSPREY_BINARY_DIR, OSPREY_SOURCE_DIR, folder_.path().string(), more);
    const int status = std::system(command.c_str());
    log = read_file(folder_ / "log");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int64_t newest() const { return checkpoint::latest(folder_ / "run")->step; }

  std::string log;

 private:
  TempDir folder_;
};

TEST(EarlyStopping, TheProgramSaysWhyItEndsAndThatNothingIsLeftToDo) {
  TrainingWithoutProgress training;
  ASSERT_EQ(training.run("--num_train_steps 20"), 0) << training.log;
  EXPECT_EQ(training.newest(), 3);
  EXPECT_THAT(training.log,
              HasSubstr("Early stopping at step 3: in 2 evaluations DetectionBoxes_Precision/mAP has not improved on "
                        "the best so far"));
  EXPECT_THAT(training.log, HasSubstr("at step 1\n"));
  EXPECT_EQ(training.run("--num_train_steps 20"), 0);
  EXPECT_THAT(training.log, HasSubstr("stopped early before: in 2 evaluations"));
  EXPECT_EQ(training.newest(), 3);
}

TEST(EarlyStopping, TheProgramEndsWhereTheTargetIsReached) {
  TrainingWithoutProgress training;
  const std::string loss =
      "--num_train_steps 20 --set train_config.early_stopping.metric=Loss/total_loss --set "
      "train_config.early_stopping.target=";
  ASSERT_EQ(training.run(loss + "1e6"), 0) << training.log;
  EXPECT_EQ(training.newest(), 1);
  EXPECT_THAT(training.log, HasSubstr("Early stopping at step 1: Loss/total_loss has reached 1e+06: it is"));
  ASSERT_EQ(training.run(loss + "0"), 0) << training.log;
  EXPECT_EQ(training.newest(), 3) << "another target goes on, as far as there is patience";
}

TEST(EarlyStopping, AllReplicasEndAtTheSameStepAlsoWhenTheyGoOn) {
  TrainingWithoutProgress training;
  ASSERT_EQ(training.run("--num_clones 2 --num_train_steps 2"), 0) << training.log;
  ASSERT_EQ(training.run("--num_clones 2 --num_train_steps 20"), 0) << training.log;
  EXPECT_EQ(training.newest(), 3);
  ASSERT_EQ(training.run("--num_clones 2 --num_train_steps 20"), 0) << training.log;
  EXPECT_THAT(training.log, HasSubstr("stopped early before"));
}

TEST(EarlyStopping, WithoutEvaluationsIsAnErrorBeforeTheFirstStep) {
  const auto training = [](std::vector<std::string> assignments) {
    assignments.insert(assignments.begin(), "train_config.early_stopping={}");
    return [assignments] {
      dry_run(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", assignments),
              {.use_fake_data = true});
    };
  };
  EXPECT_THAT(training({"eval_input_reader="}),
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.early_stopping: needs evaluations"),
                                               HasSubstr("there is no eval_input_reader"))));
  EXPECT_THAT(training({"train_config.checkpoint.every_n_steps=0", "eval_config.eval_every_n_steps=0"}),
              ThrowsMessage<ConfigError>(HasSubstr("set eval_config.eval_every_n_steps")));
  EXPECT_THAT(training({"train_config.early_stopping.patience_evaluations=0"}),
              ThrowsMessage<ConfigError>(HasSubstr("early_stopping.patience_evaluations: must be >= 1")));
  EXPECT_THAT(training({"train_config.early_stopping.min_delta=-1"}),
              ThrowsMessage<ConfigError>(HasSubstr("early_stopping.min_delta: must be >= 0")));
  EXPECT_THAT(training({"train_config.early_stopping.target=nan"}),
              ThrowsMessage<ConfigError>(HasSubstr("early_stopping.target: must be a number")));
}

}  // namespace
}  // namespace osprey::train
