// Timed steps, and the trace of some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"
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

TEST(Benchmark, SaysWhereNoTraceCanBeWritten) {
  EXPECT_THAT([] { steps(1, "/nowhere/trace.json"); },
              ThrowsMessage<DataError>(HasSubstr("/nowhere/trace.json: the trace cannot be written there")));
}

}  // namespace
}  // namespace osprey::train
