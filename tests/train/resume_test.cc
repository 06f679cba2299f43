// Runs that go on with another config or other data.
#include <gmock/gmock.h>

#include <utility>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
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

TEST(Resume, ClassesThatHaveOtherIdsThanBeforeAreRefused) {
  const TempDir folder;
  data::CreateRecordsOptions shapes;
  shapes.format = data::CreateRecordsOptions::Format::kShapes;
  shapes.label_map = folder / "map.pbtxt";
  shapes.output = folder / "train.record";
  shapes.num_images = 2;
  data::create_records(shapes);
  const auto go_on = [&](const std::string& map, const char* steps) {
    osprey::testing::write_file(folder / "map.pbtxt", config::label_map_text(config::parse_label_map(map, "map")));
    osprey::train::train(
        config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config",
                              {"train_config.batch_size=2", std::string("train_config.num_steps=") + steps,
                               "train_input_reader={label_map_path: '" + shapes.label_map +
                                   "' tf_record_input_reader { input_path: '" + shapes.output + "' }}",
                               "eval_input_reader="}),
        {.model_dir = folder / "run"});
  };
  const std::string before = osprey::testing::read_file(shapes.label_map);
  const config::LabelMap map = config::parse_label_map(before, "map");
  go_on(before, "1");
  config::LabelMap swapped = map;
  std::swap(swapped.items[0].name, swapped.items[2].name);
  EXPECT_THAT([&] { go_on(config::label_map_text(swapped), "2"); },
              ::testing::ThrowsMessage<ConfigError>(
                  ::testing::AllOf(HasSubstr("class '" + map.items[0].name + "' has id 3, but had id 1 when"),
                                   HasSubstr((folder / "run/label_map.pbtxt")))));
  config::LabelMap shown = map;
  shown.items[0].display_name = "of another name for people";
  go_on(config::label_map_text(shown), "2");
}

}  // namespace
}  // namespace osprey::train
