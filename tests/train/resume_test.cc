// Runs that go on with another config or other data.
#include <gmock/gmock.h>

#include "osprey/data/create_records.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Resume, WhatIsOtherThanBeforeIsSaid) {
  const TempDir folder;
  data::CreateRecordsOptions shapes;
  shapes.format = data::CreateRecordsOptions::Format::kShapes;
  shapes.label_map = folder / "map.pbtxt";
  const auto go_on = [&](const std::string& records, int images, const char* steps, const char* seed) {
    shapes.output = folder / records;
    shapes.num_images = images;
    data::create_records(shapes);
    const std::string reader =
        "{label_map_path: '" + shapes.label_map + "' tf_record_input_reader { input_path: '" + shapes.output + "' }}";
    osprey::train::train(
        config::load_pipeline(
            OSPREY_SOURCE_DIR "/configs/quickstart.config",
            {"train_config.batch_size=2", std::string("train_config.num_steps=") + steps,
             std::string("train_config.seed=") + seed, "train_input_reader=" + reader, "eval_input_reader="}),
        {.model_dir = folder / "run"});
    return osprey::testing::read_file(folder / "run/train.log");
  };
  go_on("a.record", 2, "1", "1");
  EXPECT_THAT(go_on("a.record", 2, "2", "1"), Not(HasSubstr("train_config.seed: 1 -> 7")));
  const std::string log = go_on("b.record", 3, "3", "7");
  EXPECT_THAT(log, HasSubstr("other than when it was last started: modified: train_config.seed: 1 -> 7"));
  EXPECT_THAT(log, HasSubstr("other than when it was last started: the training records"));
}

}  // namespace
}  // namespace osprey::train
