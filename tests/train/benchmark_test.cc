// Timed steps, and the trace of some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"
#include "osprey/data/create_records.h"
#include "osprey/train/job.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string steps(int64_t count, const std::string& trace) {
  return benchmark(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config",
                                         {"train_config.batch_size=2",
                                          "train_config.fine_tune_checkpoint=", "train_input_reader.label_map_path="}),
                   {.device = "cpu", .use_fake_data = true}, count, trace);
}

TEST(Benchmark, TracesStepsThatAreNotAmongThoseTimed) {
  const testing::TempDir folder;
  const std::string file = (folder.path() / "trace.json").string();
  const nlohmann::json plain = nlohmann::json::parse(steps(2, "")), traced = nlohmann::json::parse(steps(2, file));
  EXPECT_EQ(plain.at("steps"), 2);
  EXPECT_FALSE(plain.contains("traced_steps"));
  EXPECT_EQ(traced.at("steps"), 2);
  const int traced_steps = traced.at("traced_steps");
  std::ifstream text(file);
  const nlohmann::json trace = nlohmann::json::parse(text);
  int preprocessed = 0, optimized = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    preprocessed += event.value("name", "") == "osprey::preprocess";
    optimized += event.value("name", "") == "osprey::update_parameters";
  }
  EXPECT_EQ(preprocessed, traced_steps);
  EXPECT_GE(optimized, traced_steps);
}

TEST(Benchmark, SaysWhichStageOfTheLoaderTakesHowMuch) {
  EXPECT_FALSE(nlohmann::json::parse(steps(1, "")).contains("input_shares")) << "made-up pictures are not loaded";
  const testing::TempDir folder;
  data::CreateRecordsOptions shapes;
  shapes.format = data::CreateRecordsOptions::Format::kShapes;
  shapes.num_images = 4;
  shapes.output = folder / "train.record";
  shapes.label_map = folder / "label_map.pbtxt";
  data::create_records(shapes);
  const auto pipeline = config::load_pipeline(
      OSPREY_SOURCE_DIR "/configs/quickstart.config",
      config::Overrides{.assignments = {"train_config.batch_size=2"}, .data_dir = folder.path().string()});
  const nlohmann::json shares = nlohmann::json::parse(benchmark(pipeline, {.device = "cpu"}, 2, "")).at("input_shares");
  double sum = 0;
  for (const char* stage : {"read", "decode", "augment", "collate"}) {
    EXPECT_GT(shares.at(stage).get<double>(), 0) << stage;
    sum += shares.at(stage).get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Benchmark, SaysWhereNoTraceCanBeWritten) {
  EXPECT_THAT([] { steps(1, "/nowhere/trace.json"); },
              ThrowsMessage<DataError>(HasSubstr("/nowhere/trace.json: the trace cannot be written there")));
}

}  // namespace
}  // namespace osprey::train
