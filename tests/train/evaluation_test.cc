// Evaluations inside a run.
#include <gmock/gmock.h>

#include "osprey/data/create_records.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;

TEST(EvaluationInARun, KnowsTheClassesOfTheLabelMapAlone) {
  const TempDir folder;
  data::CreateRecordsOptions shapes;
  shapes.format = data::CreateRecordsOptions::Format::kShapes;
  shapes.num_images = 2;
  shapes.label_map = folder / "map.pbtxt";
  shapes.output = folder / "shapes.record";
  osprey::testing::write_file(shapes.label_map,
                              "item { id: 1 name: 'circle' } item { id: 2 name: 'rectangle' display_name: 'box' } "
                              "item { id: 4 name: 'triangle' }");
  data::create_records(shapes);
  const std::string records = "tf_record_input_reader { input_path: '" + shapes.output + "' }";
  const auto pipeline = config::load_pipeline(
      OSPREY_SOURCE_DIR "/configs/quickstart.config",
      {"model.ssd.num_classes=4", "train_config.batch_size=2", "train_config.num_steps=1", "eval_config.batch_size=2",
       "train_input_reader={label_map_path: '" + shapes.label_map + "' " + records + "}",
       "eval_input_reader=[{" + records + "}]"});
  train(pipeline, {.model_dir = folder / "run"});
  std::vector<std::pair<int, std::string>> classes;
  const nlohmann::json metrics = osprey::testing::read_json(folder / "run/eval/metrics_1.json");
  for (const auto& row : metrics.at("per_class")) classes.emplace_back(row.at("id"), row.at("name"));
  using ::testing::Pair;
  EXPECT_THAT(classes, ::testing::ElementsAre(Pair(1, "circle"), Pair(2, "box"), Pair(4, "triangle")));
}

}  // namespace
}  // namespace osprey::train
