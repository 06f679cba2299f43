// Evaluations inside a run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "osprey/base/error.h"
#include "osprey/data/create_records.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Pictures of shapes, and the quickstart with them for training and evaluation.
struct Shapes {
  explicit Shapes(const std::string& label_map, int64_t num_images = 2) {
    data::CreateRecordsOptions shapes;
    shapes.format = data::CreateRecordsOptions::Format::kShapes;
    shapes.num_images = num_images;
    shapes.label_map = map;
    shapes.output = folder / "shapes.record";
    osprey::testing::write_file(map, label_map);
    data::create_records(shapes);
    records = "tf_record_input_reader { input_path: '" + shapes.output + "' }";
  }
  config::Pipeline pipeline(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train_config.batch_size=2", "train_config.num_steps=1", "eval_config.batch_size=2",
                                    "train_input_reader={label_map_path: '" + map + "' " + records + "}",
                                    "eval_input_reader=[{" + records + "}]"};
    all.insert(all.end(), more.begin(), more.end());
    return config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", all);
  }

  TempDir folder;
  std::string map = folder / "map.pbtxt", records;
};

constexpr const char* kThreeClasses =
    "item { id: 1 name: 'circle' } item { id: 2 name: 'rectangle' } item { id: 3 name: 'triangle' }";

TEST(EvaluationInARun, KnowsTheClassesOfTheLabelMapAlone) {
  const Shapes shapes(
      "item { id: 1 name: 'circle' } item { id: 2 name: 'rectangle' display_name: 'box' } "
      "item { id: 4 name: 'triangle' }");
  train(shapes.pipeline({"model.ssd.num_classes=4"}), {.model_dir = shapes.folder / "run"});
  std::vector<std::pair<int, std::string>> classes;
  const nlohmann::json metrics = osprey::testing::read_json(shapes.folder / "run/eval/metrics_1.json");
  for (const auto& row : metrics.at("per_class")) classes.emplace_back(row.at("id"), row.at("name"));
  using ::testing::Pair;
  EXPECT_THAT(classes, ::testing::ElementsAre(Pair(1, "circle"), Pair(2, "box"), Pair(4, "triangle")));
}

TEST(EvaluationInARun, IsEndedByASignalAndMadeWhenTheRunIsStartedAgain) {
  const Shapes shapes(kThreeClasses, 150);
  const std::filesystem::path run = shapes.folder / "run", metrics = run / "eval/metrics_1.json";
  const std::vector<std::string> settings = {"eval_config.batch_size=1",
                                             "train_config.checkpoint.keep_best.metric=Loss/total_loss"};
  std::filesystem::create_directories(metrics.parent_path());
  osprey::testing::write_file(metrics, "of an earlier training");
  {
    const std::jthread stopper([&](const std::stop_token& over) {
      while (!over.stop_requested() && !std::filesystem::exists(run / "ckpt-1.osprey"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!over.stop_requested()) ::kill(::getpid(), SIGTERM);
    });
    EXPECT_EQ(train(shapes.pipeline(settings), {.model_dir = run.string()}).signal, SIGTERM);
  }
  EXPECT_FALSE(std::filesystem::exists(metrics)) << "nor what would be taken for its result";
  EXPECT_FALSE(std::filesystem::exists(run / "best"));

  osprey::testing::write_file(metrics, "of eval_detector, which no training knows of");
  const RunOutcome again = train(shapes.pipeline(settings), {.model_dir = run.string()});
  EXPECT_TRUE(again.already_done);
  EXPECT_EQ(again.steps, 0);
  EXPECT_EQ(osprey::testing::read_json(metrics).at("num_images"), 150);
  EXPECT_TRUE(std::filesystem::exists(run / "best/ckpt-1.osprey"));

  std::filesystem::remove_all(run / "best");
  train(shapes.pipeline(settings), {.model_dir = run.string()});
  EXPECT_FALSE(std::filesystem::exists(run / "best")) << "nothing was left to do";
  EXPECT_THAT(osprey::testing::read_file(run / "train.log"),
              AllOf(HasSubstr("The evaluation of step 1 is left unfinished because of the signal"),
                    HasSubstr("already at step 1 >= num_steps 1; its evaluation, which was lost, is made now"),
                    HasSubstr("already at step 1 >= num_steps 1, nothing to do")));
}

TEST(EvaluationInARun, IsLoggedWithTheTimeThatTheTrainingHasTaken) {
  const Shapes shapes(kThreeClasses, 4);
  const std::filesystem::path run = shapes.folder / "run";
  for (const int steps : {2, 3})
    train(shapes.pipeline({"eval_config.eval_every_n_steps=1", fmt::format("train_config.num_steps={}", steps)}),
          {.model_dir = run.string()});
  std::ifstream lines(run / "evaluations.jsonl");
  int64_t step = 0;
  double seconds = 0, evaluations = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    EXPECT_EQ(record.at("step"), ++step);
    EXPECT_EQ(record.at("epoch"), static_cast<double>(step) / 2);
    evaluations += record.at("evaluation_seconds").get<double>();
    EXPECT_GT(record.at("wall_seconds").get<double>(), seconds) << "that of the first start counts in the second";
    seconds = record.at("wall_seconds").get<double>();
    EXPECT_GT(seconds, evaluations);
    EXPECT_TRUE(record.at("metrics").contains("DetectionBoxes_Precision/mAP"));
  }
  EXPECT_EQ(step, 3);
  EXPECT_THAT(
      osprey::testing::read_file(run / "train.log"),
      AllOf(ContainsRegex("Done at step 2 after 2 steps in [0-9]+s, [0-9]+s of it evaluations\n"),
            ContainsRegex("Done at step 3 after 1 steps in [0-9]+s, [0-9]+s of it evaluations; [0-9]+s in all\n")));
}

TEST(EvaluationInARun, SaysWhichOfSeveralReadersItTakes) {
  const Shapes shapes(kThreeClasses);
  const std::filesystem::path run = shapes.folder / "run";
  train(shapes.pipeline({"eval_input_reader+=" + shapes.records, "eval_input_reader[0].name=day"}),
        {.model_dir = run.string()});
  EXPECT_THAT(osprey::testing::read_file(run / "train.log"),
              HasSubstr("the config has 2 eval_input_reader; a training evaluates eval_input_reader[0] (day)"));
}

TEST(EvaluationInARun, AMetricThatItDoesNotGiveIsAnErrorBeforeTheFirstStep) {
  const Shapes shapes(kThreeClasses);
  const auto training = [&](const std::vector<std::string>& assignments) {
    return [&shapes, assignments] { train(shapes.pipeline(assignments), {.model_dir = shapes.folder / "run"}); };
  };
  EXPECT_THAT(training({"train_config.checkpoint.keep_best.metric=mAP"}),
              ThrowsMessage<ConfigError>(AllOf(
                  HasSubstr("train_config.checkpoint.keep_best.metric: the evaluation gives no metric \"mAP\"; did you "
                            "mean \"DetectionBoxes_Precision/mAP\"? Known are DetectionBoxes_Precision/mAP, "),
                  HasSubstr("DetectionBoxes_Recall/AR@100 (large), Loss/total_loss"))));
  EXPECT_THAT(training({"train_config.early_stopping.metric=PascalBoxes_Precision/mAP@0.5IOU"}),
              ThrowsMessage<ConfigError>(HasSubstr("train_config.early_stopping.metric: the evaluation gives no")));
  EXPECT_THAT(training({"train_config.early_stopping={}", "eval_config.ignore_groundtruth=true"}),
              ThrowsMessage<ConfigError>(HasSubstr("no metrics with eval_config.ignore_groundtruth")));
  EXPECT_FALSE(std::filesystem::exists(shapes.folder / "run/metrics.jsonl"));
}

TEST(EvaluationInARun, MetricsOfClassesAndLossesMayBeAskedFor) {
  const Shapes shapes(kThreeClasses);
  train(shapes.pipeline({"eval_config.include_metrics_per_category=true", "eval_config.eval_every_n_steps=1",
                         "train_config.early_stopping={metric: 'Loss/total_loss' mode: MIN}",
                         "train_config.checkpoint.keep_best.metric="
                         "DetectionBoxes_PerformanceByCategory/mAP/triangle"}),
        {.model_dir = shapes.folder / "run"});
  EXPECT_THAT(osprey::testing::read_file(shapes.folder / "run/train.log"), Not(HasSubstr("has no metric")));
  EXPECT_TRUE(std::filesystem::exists(shapes.folder / "run/early_stopping.json"));
}

TEST(EvaluationInARun, ADryRunFindsWhatWouldEndIt) {
  const Shapes shapes(kThreeClasses);
  const auto trial = [&](const std::vector<std::string>& assignments) {
    return [&shapes, assignments] { dry_run(shapes.pipeline(assignments), {}); };
  };
  EXPECT_THAT(trial({"eval_input_reader[0].label_map_path='no/such/map.pbtxt'"}),
              ThrowsMessage<ConfigError>(HasSubstr("eval_input_reader[0].label_map_path: there is no 'no/such")));
  EXPECT_THAT(trial({"train_config.checkpoint.keep_best.metric=mAP"}),
              ThrowsMessage<ConfigError>(HasSubstr("did you mean")));
  EXPECT_THAT(trial({"eval_input_reader[0].tf_record_input_reader.input_path=no/such.record"}),
              ThrowsMessage<DataError>(HasSubstr("eval_input_reader[0]")));
  EXPECT_NO_THROW(trial({})());
}

}  // namespace
}  // namespace osprey::train
