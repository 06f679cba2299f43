// Runs that go back to a checkpoint where a batch is not finite (train_config.on_nan).
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/data/create_records.h"
#include "osprey/data/record_file.h"
#include "osprey/kernels/device.h"
#include "osprey/records/example.pb.h"
#include "osprey/train/job.h"
#include "osprey/train/progress_hook.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "train/poisoned_source.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::parts_of;
using osprey::testing::PoisonedSource;
using osprey::testing::read_file;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Where a toy run with one bad batch ends; it saves every third step and looks at every fifth.
RunOutcome end_of(const std::filesystem::path& folder, int64_t bad_batch, TrainState* state = nullptr) {
  ToyRun toy({});
  PoisonedSource source(bad_batch);
  checkpoint::Directory checkpoints(folder, {});
  TrainerParts parts = parts_of(toy, source);
  parts.checkpoints = &checkpoints;
  const RunOutcome outcome =
      run(parts, {.num_steps = 20, .checkpoint_every_n = 3, .look_every_n = 5, .max_rollbacks = 1});
  if (state != nullptr) *state = toy.state;
  return outcome;
}

void expect_goes_back() {
  const TempDir folder, other;
  TrainState state;
  EXPECT_EQ(end_of(folder.path(), 7, &state).roll_back_past, 7);
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(rollback_target(folder.path(), 7, 3)->step, 6);
  EXPECT_EQ(end_of(other.path(), 1).roll_back_past, 1);
  EXPECT_EQ(rollback_target(other.path(), 1, 3)->step, 0) << "the first weights";
}

TEST(Rollback, TheRunEndsBeforeTheStepWithACheckpointToGoBackTo) {
  expect_goes_back();
  const kernels::device::Emulation emulation;
  expect_goes_back();
}

TEST(Rollback, WhatWasLoggedLastOnADeviceIsNotLost) {
  const kernels::device::Emulation emulation;
  const TempDir folder;
  ToyRun toy({});
  PoisonedSource source(6);
  checkpoint::Directory checkpoints(folder.path(), {});
  std::vector<int64_t> logged;
  ProgressHook progress(3, 0, {[&](const LogRecord& record) { logged.push_back(record.step); }});
  TrainerParts parts = parts_of(toy, source);
  parts.checkpoints = &checkpoints;
  parts.hooks = {&progress};
  run(parts, {.num_steps = 20, .checkpoint_every_n = 3, .max_rollbacks = 1});
  EXPECT_THAT(logged, ElementsAre(3, 6));
}

TEST(Rollback, GoesBackToACheckpointThatEveryRunHas) {
  const TempDir folder;
  ToyRun toy({});
  checkpoint::Directory checkpoints(folder.path(), {});
  for (const int64_t step : {3, 6, 8}) checkpoints.save(step, snapshot(toy.state), 0);
  EXPECT_EQ(rollback_target(folder.path(), 9, 3)->step, 6) << "8 is that of a signal";
  EXPECT_EQ(rollback_target(folder.path(), 5, 3)->step, 3);
  EXPECT_EQ(rollback_target(folder.path(), 6, 3)->step, 3) << "6 holds the weights that have just failed";
  EXPECT_EQ(rollback_target(folder.path(), 3, 3)->step, 3) << "there is no other";
  EXPECT_EQ(rollback_target(folder.path(), 9, 0)->step, 8) << "none is regular where time decides";
  EXPECT_FALSE(rollback_target(folder.path(), 9, 100));
}

TEST(Rollback, WithoutACheckpointTheRunEnds) {
  ToyRun toy({});
  PoisonedSource source(2);
  EXPECT_THAT([&] { run(parts_of(toy, source), {.num_steps = 9, .checkpoint_every_n = 4, .max_rollbacks = 1}); },
              ThrowsMessage<DivergedError>(AllOf(HasSubstr("Step 2 was not applied, and there is no checkpoint"),
                                                 HasSubstr("a multiple of 4 steps"))));
}

/// Trainings on shapes, one picture of which has a box whose weight is not a number: with batches of two, once in ten.
class PoisonedShapes {
 public:
  PoisonedShapes() {
    data::CreateRecordsOptions shapes;
    shapes.format = data::CreateRecordsOptions::Format::kShapes;
    shapes.label_map = folder / "map.pbtxt";
    shapes.output = folder / "clean.record";
    shapes.num_images = 20;
    data::create_records(shapes);
    data::RecordReader reader(folder / "clean.record");
    data::RecordWriter writer(folder / "poisoned.record");
    std::string record;
    for (int i = 0; reader.next(record); ++i) {
      records::Example example;
      EXPECT_TRUE(example.ParseFromString(record));
      auto& features = *example.mutable_features()->mutable_feature();
      const int boxes = features["image/object/bbox/xmin"].float_list().value_size();
      for (int box = 0; i == 5 && box < boxes; ++box)
        features["image/object/weight"].mutable_float_list()->add_value(NAN);
      writer.write(example.SerializeAsString());
    }
    writer.close();
  }

  void train(const char* run, const std::string& steps, const std::string& on_nan,
             const std::vector<std::string>& more = {}) const {
    const std::string reader = "{label_map_path: '" + (folder / "map.pbtxt") +
                               "' tf_record_input_reader { input_path: '" + (folder / "poisoned.record") + "' }}";
    std::vector<std::string> overrides = {"train_config.batch_size=2",
                                          "train_config.num_steps=" + steps,
                                          "train_config.checkpoint={every_n_steps: 4 keep_last: 1}",
                                          "train_config.log_every_n_steps=1",
                                          "train_config.on_nan=" + on_nan,
                                          "train_input_reader=" + reader,
                                          "eval_input_reader="};
    overrides.insert(overrides.end(), more.begin(), more.end());
    osprey::train::train(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", overrides),
                         {.model_dir = folder / run});
  }

  nlohmann::json run_info(const char* run) const {
    return osprey::testing::read_json(folder.path() / run / "run_info.json");
  }
  std::string text(const char* run, const char* file) const { return read_file(folder.path() / run / file); }

  TempDir folder;
};

TEST(Rollback, ARunGoesOnWithTheDataAfterTheBatchHoweverItIsInterrupted) {
  const PoisonedShapes shapes;
  const std::string on_nan = "{policy: ROLLBACK max_rollbacks: 9 rollback_learning_rate_factor: 0.5}";
  shapes.train("whole", "30", on_nan);
  for (const char* steps : {"3", "7", "13", "14", "22", "30"}) shapes.train("interrupted", steps, on_nan);
  EXPECT_EQ(shapes.text("interrupted", "ckpt-30.osprey"), shapes.text("whole", "ckpt-30.osprey"));

  const auto rollbacks = shapes.run_info("whole").at("rollbacks").get<int64_t>();
  EXPECT_GE(rollbacks, 2);
  const std::string log = shapes.text("whole", "train.log");
  EXPECT_THAT(log, AllOf(HasSubstr("the run goes back to a checkpoint"), HasSubstr("rollback 2 of at most 9"),
                         HasSubstr("learning rates times 0.25")));
  shapes.train("whole", "31", "{policy: SKIP_BATCH}");  // the rates stay what they have become
  std::ifstream lines(shapes.folder.path() / "whole/metrics.jsonl");
  int64_t step = 0;
  double rate = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record.at("step"), ++step) << "each step once";
    EXPECT_TRUE(record.at("total_loss").is_number());
    rate = record.at("learning_rate").get<double>();
  }
  EXPECT_EQ(step, 31);
  // The warm-up from 0.004 to 0.06 in 100 steps is at 30.
  EXPECT_NEAR(rate, (0.004 + 0.056 * 0.3) * std::pow(0.5, static_cast<double>(rollbacks)), 1e-6);
}

TEST(Rollback, WeightsThatAreBeyondHelpAreLeftBehindEvenWhereACheckpointHoldsThem) {
  const PoisonedShapes shapes;
  const std::string much =
      "train_config.optimizer={momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 1e30 }}}}";
  shapes.train("run", "4", "{policy: ROLLBACK rollback_learning_rate_factor: 1e-32}",
               {much, "train_config.checkpoint={every_n_steps: 1 keep_last: 2}"});
  EXPECT_THAT(shapes.text("run", "train.log"), AllOf(HasSubstr("Saved " + (shapes.folder / "run/ckpt-1.osprey")),
                                                     HasSubstr("Rolled back from step 1 to 0"), HasSubstr("Step 4/4")));
}

TEST(Rollback, OneMoreThanAllowedEndsTheRun) {
  const PoisonedShapes shapes;
  EXPECT_THAT([&] { shapes.train("run", "60", "{policy: ROLLBACK max_rollbacks: 1}"); },
              ThrowsMessage<DivergedError>(AllOf(HasSubstr("was not applied, after 1 rollbacks"),
                                                 HasSubstr("train_config.on_nan.max_rollbacks"))));
  EXPECT_EQ(shapes.run_info("run").at("rollbacks"), 1);
}

TEST(SkipBatch, TheCountIsInTheFilesOfTheRunAndTheResultIsThatOfARunThatWasNotInterrupted) {
  const PoisonedShapes shapes;
  const std::string on_nan = "{policy: SKIP_BATCH}";
  shapes.train("whole", "30", on_nan);
  for (const char* steps : {"7", "15", "30"}) shapes.train("interrupted", steps, on_nan);
  EXPECT_EQ(shapes.text("interrupted", "ckpt-30.osprey"), shapes.text("whole", "ckpt-30.osprey"));
  EXPECT_EQ(shapes.run_info("whole").at("skipped_batches"), 3);
  EXPECT_EQ(shapes.run_info("interrupted").at("skipped_batches"), 3);
  EXPECT_THAT(shapes.text("whole", "metrics.jsonl"), HasSubstr("\"skipped_batches\":3"));
  EXPECT_TRUE(std::filesystem::exists(shapes.folder.path() / "whole/nan_report/report.json"));
}

}  // namespace
}  // namespace osprey::train
