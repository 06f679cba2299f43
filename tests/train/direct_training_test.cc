// Runs on annotation files that were never made records.
#include <gmock/gmock.h>

#include <fstream>

#include "osprey/base/error.h"
#include "osprey/data/create_records.h"
#include "osprey/data/image_codec.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/report.h"
#include "osprey/train/dataset_check.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {
using osprey::testing::read_file;
using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Four pictures with boxes of three classes in a CSV, and as records.
struct Annotated {
  Annotated() {
    for (int i = 0; i < 4; ++i)
      write_file(folder / ("images/" + std::to_string(i) + ".jpg"),
                 data::encode_jpeg(osprey::testing::gradient_image(64 + 8 * i, 96)));
    write(
        "0.jpg,4,4,40,40,star\n0.jpg,50,8,90,60,circle\n1.jpg,,,,,\n2.jpg,10,10,30,50,square\n2.jpg,1,1,95,70,circle\n"
        "3.jpg,-20,5,60,70,star\n");
    data::CreateRecordsOptions records;
    records.format = data::AnnotationFormat::kCsv;
    records.input = csv;
    records.label_map = map;
    records.output = folder / "all.record";
    data::create_records(records);
    from_records = "{label_map_path: '" + map + "' tf_record_input_reader { input_path: '" + records.output + "' }";
  }
  void write(const std::string& rows) const { write_file(csv, rows); }
  config::Pipeline pipeline(const std::string& reader, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train_config.batch_size=2", "train_config.num_steps=5",
                                    "model.ssd.num_classes=", "train_input_reader=" + reader + " shuffle: true }",
                                    "eval_input_reader=[" + reader + " shuffle: false }]"};
    all.insert(all.end(), more.begin(), more.end());
    return config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", all);
  }

  TempDir folder;
  std::string csv = folder / "boxes.csv", map = folder / "map.pbtxt", from_records,
              direct = "{annotation_input_reader { format: CSV input: '" + csv + "' }";
};

TEST(DirectTraining, GivesTheWeightsAndMetricsOfTheRecords) {
  const Annotated set;
  train(set.pipeline(set.from_records), {.model_dir = set.folder / "records"});
  train(set.pipeline(set.direct), {.model_dir = set.folder / "direct"});
  for (const char* file : {"label_map.pbtxt", "eval/metrics_5.json"})
    EXPECT_EQ(read_file(set.folder / (std::string("direct/") + file)),
              read_file(set.folder / (std::string("records/") + file)))
        << file;
  int64_t weights = 0;
  for (const auto& entry : std::filesystem::directory_iterator(set.folder / "direct"))
    if (const std::string name = entry.path().filename().string(); name.starts_with("ckpt-")) {
      ++weights;
      EXPECT_TRUE(read_file(entry.path()) == read_file(set.folder / ("records/" + name))) << name;
    }
  EXPECT_GT(weights, 0);
  EXPECT_THAT(read_file(set.folder / "direct/pipeline.config"), HasSubstr("name: \"circle\""));
  const nlohmann::json info = osprey::testing::read_json(set.folder / "direct/run_info.json");
  EXPECT_EQ(info.at("data").at("annotations"), set.csv);

  // A later evaluation knows the classes of the run, whatever is annotated meanwhile.
  set.write("0.jpg,4,4,40,40,zebra\n0.jpg,4,4,40,40,ape\n0.jpg,50,8,90,60,circle\n");
  const config::Pipeline saved = config::load_pipeline(set.folder / "direct/pipeline.config");
  eval::CheckpointEvaluator evaluator(saved.root(), {});
  int64_t step = 0;
  const eval::EvaluationResult result = evaluator.evaluate(set.folder / "direct/ckpt-5.osprey", step);
  EXPECT_EQ(result.num_images, 1);
  EXPECT_THAT(eval::text_report(result), AllOf(HasSubstr("circle"), Not(HasSubstr("zebra"))));
}

TEST(DirectTraining, OtherAnnotationsThanBeforeAreSaid) {
  const Annotated set;
  const auto run = [&](const char* steps) {
    train(set.pipeline(set.direct, {std::string("train_config.num_steps=") + steps, "eval_input_reader="}),
          {.model_dir = set.folder / "run"});
    return read_file(set.folder / "run/train.log");
  };
  run("1");
  EXPECT_THAT(run("2"), Not(HasSubstr("the training records or annotations")));
  std::ofstream(set.csv, std::ios::app) << "3.jpg,1,2,30,40,star\n";
  EXPECT_THAT(run("3"), HasSubstr("other than when it was last started: the training records or annotations"));
}

TEST(DirectTraining, CheckDatasetNamesPictureBoxAndReason) {
  const Annotated set;
  const auto check = [&](config::Pipeline pipeline) { return check_dataset(pipeline, {.num_pictures = 4}); };
  const DatasetCheck sound = check(set.pipeline(set.direct));
  const DatasetCheck records = check(set.pipeline(set.from_records));
  EXPECT_FALSE(sound.would_stop());
  const ReaderCheck &given = sound.readers[0], &expected = records.readers[0];
  EXPECT_THAT(given.files, ElementsAre(set.csv));
  EXPECT_EQ(given.records, 4);
  EXPECT_EQ(given.boxes, expected.boxes);
  EXPECT_EQ(given.pictures_without_boxes, 1);
  EXPECT_EQ(given.box_sizes.boxes, expected.box_sizes.boxes);
  ASSERT_EQ(given.classes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(given.classes[i].name, expected.classes[i].name);
    EXPECT_EQ(given.classes[i].boxes, expected.classes[i].boxes);
  }
  ASSERT_EQ(given.problems.size(), 1u);
  EXPECT_EQ(describe(given.problems[0]).find(set.csv + ": 3.jpg: 3.jpg: box 0: leaves the image"), 0u)
      << describe(given.problems[0]);

  set.write(read_file(set.csv) + "gone.jpg,1,2,30,40,star\n0.jpg,1,2\n2.jpg,9,9,9,20,star\n");
  const DatasetCheck broken = check(set.pipeline(set.direct));
  EXPECT_TRUE(broken.would_stop()) << "one of five is more than max_bad_fraction";
  EXPECT_EQ(broken.readers[0].unusable_records, 1);
  EXPECT_THAT(broken.readers[0].warnings, Contains(HasSubstr("row(s) left out, having too few fields")));
  EXPECT_THAT(dataset_text(broken), AllOf(HasSubstr("annotation or picture cannot be read (record left out)"),
                                          HasSubstr("boxes.csv: gone.jpg: not found"), HasSubstr("box 2: is empty")));
  EXPECT_THAT(dataset_text(broken), HasSubstr("2.jpg"));
  config::Pipeline config = set.pipeline(set.direct);
  const DatasetCheck again = check_dataset(config, {.num_pictures = 4});
  EXPECT_EQ(draw_worst(config, again, 3, set.folder / "drawn").size(), 3u);
}

}  // namespace
}  // namespace osprey::train
