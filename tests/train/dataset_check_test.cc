#include "osprey/train/dataset_check.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/boxes/geometry.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/loader.h"
#include "osprey/data/record_file.h"
#include "osprey/data/source_options.h"
#include "support/example_record.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"
#include "train/anchor_reach.h"

namespace osprey::train {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

using Records = std::vector<std::string>;

ExampleRecord picture(const std::string& id) { return picture_record(64, 128, id); }
std::string sound(const std::string& id) { return picture(id).box(.1f, .1f, .6f, .4f, 1).bytes(); }

Records sound_records(int count) {
  Records records;
  for (int i = 0; i < count; ++i) records.push_back(sound(fmt::format("good{}", i)));
  return records;
}

/// The quickstart's config with three classes and records of one's own.
class DatasetCheckTest : public ::testing::Test {
 protected:
  DatasetCheckTest() {
    write_file(folder_ / "label_map.pbtxt",
               "item { id: 1 name: 'circle' } item { id: 2 name: 'square' } item { id: 3 name: 'star' }");
    write("train.record", sound_records(3));
    write("test.record", sound_records(1));
  }

  void write(const std::string& name, const Records& records) const {
    data::RecordWriter writer(folder_ / name);
    for (const std::string& record : records) writer.write(record);
    writer.close();
  }

  void damage(const std::string& name, int64_t offset) const {
    std::string bytes = read_file(folder_ / name);
    bytes[static_cast<size_t>(offset)] ^= 1;
    write_file(folder_ / name, bytes);
  }

  config::Pipeline pipeline(const std::vector<std::string>& assignments = {}) const {
    return config::load_pipeline(kConfig, {"", assignments, folder_.path().string()});
  }

  /// With the verdict compared with what the loaders do.
  DatasetCheck check(const std::vector<std::string>& assignments = {}) const {
    config::Pipeline config = pipeline(assignments);
    DatasetCheck result = check_dataset(config, {.num_workers = 3, .num_pictures = 4});
    const auto root = config.root();
    const auto train = root.child("train_input_reader", root->train_input_reader());
    const auto eval = root.child("eval_input_reader", 0, root->eval_input_reader(0));
    EXPECT_EQ(reading_ends(train, data::train_options(root)), !result.readers[0].stops.empty());
    EXPECT_EQ(reading_ends(eval, data::eval_options(root)), !result.readers[1].stops.empty());
    return result;
  }

  /// Whether a loader refuses, or comes upon something in one pass over all records, that ends its run.
  static bool reading_ends(const config::ConfigNode<proto::InputReader>& reader, const data::SourceOptions& options) {
    try {
      const auto source = data::make_source(reader, options);
      const int64_t passes = source->num_examples() / options.batch_size + 1;
      for (int64_t i = 0; i < passes && source->next(); ++i) continue;
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  /// The exit code of the program, which says what it prints in said_.
  int run(const std::string& flags) {
    const std::string out = folder_ / "out.txt";
    const int status =
        std::system(fmt::format("'{}/bin/check_dataset' --pipeline_config '{}' --data_dir '{}' {} > '{}' 2>&1",
                                OSPREY_BINARY_DIR, kConfig, folder_.path().string(), flags, out)
                        .c_str());
    said_ = read_file(out);
    return WEXITSTATUS(status);
  }

  static constexpr const char* kConfig = OSPREY_SOURCE_DIR "/configs/quickstart.config";
  TempDir folder_;
  std::string said_;
};

TEST_F(DatasetCheckTest, CleanDataIsCounted) {
  write("train.record",
        {sound("a"), picture("b").box(.1f, .1f, .6f, .4f, 1).box(.1f, .1f, .6f, .4f, 1).box(0, 0, 1, 1, 2).bytes(),
         picture_record(40, 30, "c").bytes()});
  const DatasetCheck result = check();
  EXPECT_FALSE(result.would_stop());
  ASSERT_THAT(result.readers, SizeIs(2));
  const ReaderCheck& train = result.readers[0];
  EXPECT_EQ(train.reader, "train_input_reader");
  EXPECT_EQ(result.readers[1].reader, "eval_input_reader[0]");
  EXPECT_THAT(train.files, SizeIs(1));
  EXPECT_EQ(train.records, 3);
  EXPECT_EQ(train.pictures, 3);
  EXPECT_EQ(train.boxes, 4);
  EXPECT_EQ(train.pictures_without_boxes, 1);
  EXPECT_EQ(train.max_boxes, 16);
  EXPECT_EQ(train.most_boxes.boxes, 3);
  EXPECT_EQ(train.most_boxes.name, "b");
  const auto row = [](const std::string& name, int64_t boxes, int64_t pictures) {
    using Class = ReaderCheck::Class;
    return AllOf(Field(&Class::name, name), Field(&Class::boxes, boxes), Field(&Class::pictures, pictures));
  };
  EXPECT_THAT(train.classes, ElementsAre(row("circle", 3, 2), row("square", 1, 1), row("star", 0, 0)));
  EXPECT_THAT(train.warnings, ElementsAre("classes of the label map without a box: star"));
  EXPECT_EQ(train.size_count, (std::map<std::pair<int64_t, int64_t>, int64_t>{{{64, 128}, 2}, {{40, 30}, 1}}));
  EXPECT_THAT(train.problems, IsEmpty());
  EXPECT_THAT(dataset_text(result), HasSubstr("ready to train"));
}

TEST_F(DatasetCheckTest, BoxesAreMeasuredAtTheSizeOfTheNetwork) {
  // 256 x 256: 0.02 of it are 5 pixels, 0.05 are 13, 0.1 are 26, 0.2 are 51, 0.4 are 102, 1 is 256.
  ExampleRecord record = picture("a");
  for (const float side : {.02f, .05f, .1f, .2f, .4f, 1.0f}) record.box(0, 0, side, side / 2, 1);
  write("train.record", {record.bytes()});
  EXPECT_THAT(check().readers[0].box_sizes.boxes, ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST_F(DatasetCheckTest, BoxesOfWeightZeroAreCountedAndInNoTable) {
  const auto record = picture("a").box(0, 0, .5f, .5f, 1).box(0, 0, .5f, .01f, 2);
  write("train.record", {ExampleRecord(record).floats("image/object/weight", {1, 0}).bytes()});
  const ReaderCheck train = check().readers[0];
  EXPECT_EQ(train.boxes, 2);
  EXPECT_EQ(train.weightless_boxes, 1);
  EXPECT_EQ(train.classes[0].boxes, 1);
  EXPECT_EQ(train.classes[1].boxes, 0);
  EXPECT_THAT(train.box_sizes.boxes, ElementsAre(0, 0, 0, 0, 0, 1));
  EXPECT_THAT(train.box_shapes.boxes, ElementsAre(0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(dataset_text(check()), AllOf(HasSubstr("boxes 2 (1 of weight 0, of which nothing is learnt)"),
                                           HasSubstr("all                    1")));
}

TEST_F(DatasetCheckTest, BoxesAreMeasuredByTheirAspectRatioInTheNetwork) {
  // A picture of 64 x 128 becomes square: 0.1 wide and 0.6 high is 1 to 6 there.
  ExampleRecord record = picture("a");
  for (const float width : {.1f, .2f, .4f, .6f}) record.box(0, 0, .6f, width, 1);
  for (const float height : {.3f, .2f, .1f}) record.box(0, 0, height, .45f, 1);
  write("train.record", {record.bytes()});
  const ReaderCheck train = check().readers[0];
  EXPECT_THAT(train.box_shapes.boxes, ElementsAre(1, 1, 1, 1, 1, 1, 1));  // 1/6, 1/3, 2/3, 1, 3/2, 9/4, 9/2
}

TEST_F(DatasetCheckTest, AnchorsThatFitBetterAreProposed) {
  // Pillars of 0.1 by 0.5: squares, 1.5 and 0.67 do not overlap half of them.
  ExampleRecord record = picture("a");
  for (int i = 0; i < 16; ++i) {
    const float x = static_cast<float>(i) / 18;
    record.box(.2f, x, .7f, x + .1f, 1);
  }
  write("train.record", Records(7, record.bytes()));
  const DatasetCheck result = check();
  ASSERT_TRUE(result.anchors && result.anchors->proposal);
  EXPECT_EQ(result.anchors->boxes, 7 * 16);
  EXPECT_EQ(result.anchors->reached, 0);
  EXPECT_EQ(result.anchors->proposal->reached, 7 * 16);
  EXPECT_THAT(dataset_text(result), AllOf(HasSubstr("# anchors\n  0.0 % of 112 boxes have one at IoU >= 0.5; 100.0 %"),
                                          HasSubstr("    anchor_generator {\n      ssd_anchor_generator {\n")));
  const auto json = nlohmann::json::parse(dataset_json(result));
  EXPECT_EQ(json["anchors"]["proposal"]["reached"], 112);
  EXPECT_EQ(json["readers"][0]["box_shapes"][0], (nlohmann::json{{"below", 0.25}, {"boxes", 112}, {"reached", 0}}));

  // What is printed is what a config takes.
  std::string config = read_file(kConfig);
  const size_t begin = config.find("anchor_generator {"), end = config.find("box_coder");
  config.replace(begin, end - begin, result.anchors->proposal->anchor_generator);
  write_file(folder_ / "pasted.config", config);
  config::Overrides overrides;
  overrides.data_dir = folder_.path().string();
  config::Pipeline pasted = config::load_pipeline(folder_ / "pasted.config", overrides);
  const DatasetCheck again = check_dataset(pasted, {});
  EXPECT_EQ(again.anchors->reached, 112);
  EXPECT_FALSE(again.anchors->proposal);
  EXPECT_THAT(dataset_text(again), HasSubstr("no others, as many, were found"));
}

TEST_F(DatasetCheckTest, BoxesWithoutAnAnchorShow) {
  // The first anchors are squares of 0.11 in the middle of cells of 1 / 16: one of them is the first box. Nothing is as
  // small as the second.
  const float middle = 4.5f / 16, half = 0.055f;
  write("train.record", {picture("a")
                             .box(middle - half, middle - half, middle + half, middle + half, 1)
                             .box(.3f, .3f, .31f, .31f, 1)
                             .bytes()});
  const ReaderCheck train = check().readers[0];
  EXPECT_FLOAT_EQ(train.matched_threshold.value(), 0.5f);
  EXPECT_THAT(train.box_sizes.boxes, ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(train.box_sizes.reached, ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(AnchorReach, IsDecidedByTheThreshold) {
  const at::Tensor anchors = at::tensor({0.f, 0.f, 1.f, 1.f, .2f, .2f, .6f, .6f}).reshape({2, 4});
  const AnchorReach half(anchors, 0.5f);
  EXPECT_TRUE(half.reaches({0, 0, .5f, 1}));         // half of the first
  EXPECT_FALSE(half.reaches({0, 0, .4f, 1}));        // 0.4 of the first, 0.08 / 0.48 of the second
  EXPECT_TRUE(half.reaches({.2f, .2f, .6f, .5f}));   // 3/4 of the second
  EXPECT_FALSE(half.reaches({.7f, .7f, .8f, .8f}));  // nothing near
  EXPECT_FALSE(AnchorReach(anchors, 0.6f).reaches({0, 0, .5f, 1}));
}

TEST(AnchorReach, AgreesWithTheOverlapOfAllPairs) {
  at::manual_seed(5);
  const auto random_boxes = [](int64_t count) {
    const at::Tensor corners = at::rand({count, 2, 2});
    return at::cat({std::get<0>(corners.min(1)), std::get<0>(corners.max(1))}, 1);
  };
  const at::Tensor anchors = random_boxes(300), real = random_boxes(200);
  const at::Tensor best = boxes::iou(real, anchors).amax(1);
  const AnchorReach reach(anchors, 0.6f);
  int64_t reached = 0;
  for (int64_t i = 0; i < real.size(0); ++i) {
    const auto* row = real[i].const_data_ptr<float>();
    const bool found = reach.reaches({row[0], row[1], row[2], row[3]});
    EXPECT_EQ(found, best[i].item<float>() >= 0.6f) << best[i];
    reached += found;
  }
  EXPECT_THAT(reached, AllOf(::testing::Gt(20), ::testing::Lt(180)));
}

TEST_F(DatasetCheckTest, OneOfEachProblemIsNamed) {
  Records records = sound_records(1);
  records.push_back("no example");
  records.push_back(picture("torn").strings("image/encoded", {"no picture"}).bytes());
  records.push_back(picture("lists").box(0, 0, 1, 1, 1).floats("image/object/bbox/xmax", {1, 1}).bytes());
  records.push_back(picture("boxes")
                        .box(std::nanf(""), 0, 1, 1, 1)
                        .box(.5f, 0, .2f, 1, 1)
                        .box(1.2f, 0, 1.5f, 1, 1)
                        .box(.5f, 0, .5f, 1, 1)
                        .bytes());
  records.push_back(picture("class").box(0, 0, 1, 1, 7).bytes());
  write("train.record", records);
  const ReaderCheck train = check().readers[0];
  EXPECT_EQ(train.records, 6);
  EXPECT_EQ(train.pictures, 3);
  std::vector<std::string> kinds;
  for (const auto& problem : train.problems) kinds.push_back(fmt::format("{} {}", problem.origin.record, problem.kind));
  EXPECT_THAT(kinds, ElementsAre("1 not a tf.Example", "2 picture cannot be decoded", "3 lists of different lengths",
                                 "4 box is not finite", "4 box is inverted", "4 box lies outside the image",
                                 "4 box is empty", "5 unknown class"));
  EXPECT_THAT(train.stops, ElementsAre(AllOf(HasSubstr("disagree"), HasSubstr("class id 7 (1 box)")),
                                       "3 of 6 records cannot be used, more than max_bad_fraction 0.01"));
  EXPECT_EQ(train.worst[0].name, "boxes");
  EXPECT_EQ(train.unknown_classes, (std::map<std::string, int64_t>{{"class id 7", 1}}));
}

TEST_F(DatasetCheckTest, FewBadRecordsAreLeftOutOfATrainingButEndAnEvaluation) {
  Records records = sound_records(9);
  records.push_back("no example");
  write("train.record", records);
  write("test.record", records);
  const std::string tolerant = "train_config.max_bad_fraction=0.1";
  const DatasetCheck result = check({tolerant});
  EXPECT_THAT(result.readers[0].stops, IsEmpty());
  EXPECT_THAT(result.readers[0].warnings, Contains(HasSubstr("1 record left out")));
  EXPECT_THAT(result.readers[1].stops, ElementsAre(HasSubstr("corrupt_image_policy: SKIP")));
  EXPECT_TRUE(result.would_stop());
  EXPECT_FALSE(check({tolerant, "eval_input_reader[0].corrupt_image_policy=SKIP"}).would_stop());
  EXPECT_THAT(check({tolerant, "train_input_reader.corrupt_image_policy=FAIL_ON_CORRUPT"}).readers[0].stops,
              ElementsAre(HasSubstr("corrupt_image_policy is FAIL_ON_CORRUPT")));
}

TEST_F(DatasetCheckTest, BoxesBeyondTheMostAreAWarningUnlessStrict) {
  const std::string one = "train_input_reader.max_number_of_boxes=1";
  write("train.record", {picture("a").box(0, 0, 1, 1, 1).box(0, 0, 1, 1, 2).box(0, 0, 1, 1, 3).bytes()});
  const DatasetCheck result = check({one});
  EXPECT_FALSE(result.would_stop());
  EXPECT_THAT(result.readers[0].warnings, ElementsAre(HasSubstr("1 picture has more boxes than max_number_of_boxes, 1: "
                                                                "2 boxes are left out")));
  EXPECT_TRUE(check({one, "strict=true"}).would_stop());
}

TEST_F(DatasetCheckTest, InvalidBoxesEndTheRunOnlyWhereTheConfigSaysSo) {
  write("train.record", {sound("a"), picture("b").box(.5f, 0, .2f, 1, 1).box(0, 0, 1, 1.2f, 1).bytes()});
  EXPECT_FALSE(check().would_stop());
  EXPECT_FALSE(check({"train_input_reader.invalid_box_policy=DROP"}).would_stop());
  EXPECT_THAT(check({"train_input_reader.invalid_box_policy=FAIL"}).readers[0].stops,
              ElementsAre("invalid_box_policy is FAIL; invalid boxes: 2"));
}

TEST_F(DatasetCheckTest, WhereNoRecordCanBeUsedThereIsNothingToTrainOn) {
  write("train.record", {"no example", "nor this"});
  EXPECT_THAT(check({"train_config.max_bad_fraction=1"}).readers[0].stops,
              ElementsAre("none of 2 records can be used"));
}

TEST_F(DatasetCheckTest, ADamagedRecordIsPassedOver) {
  damage("train.record", 200);  // in the first record
  const ReaderCheck train = check().readers[0];
  EXPECT_EQ(train.records, 3);
  EXPECT_EQ(train.pictures, 2);
  ASSERT_THAT(train.problems, SizeIs(1));
  EXPECT_EQ(train.problems[0].kind, "file is damaged or cannot be read");
  EXPECT_EQ(train.problems[0].origin.record, 0);
  EXPECT_THAT(train.stops, ElementsAre("1 place where a file is damaged or cannot be read"));
}

TEST_F(DatasetCheckTest, AFileIsReadUpToTheBreakInItsFraming) {
  const auto second = static_cast<int64_t>(data::record_frame(sound("good0")).size());
  damage("train.record", second);  // the length of the second record
  const ReaderCheck train = check().readers[0];
  EXPECT_EQ(train.pictures, 1);
  ASSERT_THAT(train.problems, SizeIs(1));
  EXPECT_EQ(train.problems[0].origin.record, 1);
  EXPECT_EQ(train.problems[0].origin.offset, second);
  EXPECT_EQ(train.problems[0].reason.find("record 1"), std::string::npos) << "the place is said once";
  EXPECT_THAT(train.stops, SizeIs(1));
}

TEST_F(DatasetCheckTest, AFileThatIsNoRecordFileEndsTheRun) {
  write_file(folder_ / "train.record", "these are no records, but enough bytes for a frame");
  const ReaderCheck train = check().readers[0];
  EXPECT_EQ(train.records, 0);
  EXPECT_THAT(train.problems, SizeIs(1));
  EXPECT_THAT(train.stops, ElementsAre("1 place where a file is damaged or cannot be read"));
}

TEST_F(DatasetCheckTest, NoRecordsEndTheRunAndTheOtherReadersAreReadNevertheless) {
  write("train.record", {});
  DatasetCheck result = check();
  EXPECT_THAT(result.readers[0].stops, ElementsAre("0 examples in 1 file"));
  EXPECT_EQ(result.readers[1].pictures, 1);
  std::filesystem::remove(folder_ / "train.record");
  result = check();
  EXPECT_THAT(result.readers[0].stops, ElementsAre(HasSubstr("0 files match")));
  EXPECT_THAT(dataset_text(result), AllOf(HasSubstr("training would end"), HasSubstr("not ready")));
}

TEST_F(DatasetCheckTest, AnUnknownClassOfAnUnusableRecordEndsTheRun) {
  Records records = sound_records(19);
  records.push_back(picture("torn").box(0, 0, 1, 1, 7).strings("image/encoded", {"no picture"}).bytes());
  write("train.record", records);
  EXPECT_THAT(check({"train_config.max_bad_fraction=0.1"}).readers[0].stops,
              ElementsAre(HasSubstr("unknown are class id 7 (1 box)")));
}

TEST_F(DatasetCheckTest, ARecordOfAWrongTypeIsLeftOutOnce) {
  Records records = sound_records(10);
  records.push_back(picture("w").ints("image/object/bbox/ymin", {3}).bytes());
  write("train.record", records);
  const ReaderCheck train = check({"train_config.max_bad_fraction=0.1"}).readers[0];  // 1 of 11, but not 2
  EXPECT_THAT(train.stops, IsEmpty());
  EXPECT_EQ(train.unusable_records, 1);
}

TEST_F(DatasetCheckTest, TheVerdictIsOfTheRecordsThatTheReaderTakes) {
  const std::string every_tenth = "train_input_reader.sample_1_of_n_examples=10";
  const auto with = [&](size_t place, const std::string& record) {
    Records records = sound_records(20);
    records[place] = record;
    write("train.record", records);
  };
  const std::vector<std::string> tenth{every_tenth, "train_config.max_bad_fraction=0.1"};
  with(10, "no example");  // the second of two
  ReaderCheck train = check(tenth).readers[0];
  EXPECT_EQ(train.records_read, 2);
  EXPECT_THAT(train.stops, ElementsAre("1 of 2 records cannot be used, more than max_bad_fraction 0.1"));
  with(11, "no example");
  const DatasetCheck result = check({every_tenth, "train_input_reader.corrupt_image_policy=FAIL_ON_CORRUPT"});
  EXPECT_THAT(result.readers[0].stops, IsEmpty());
  EXPECT_THAT(result.readers[0].problems, SizeIs(1));
  EXPECT_THAT(dataset_text(result), HasSubstr("records 20 (2 by sample_1_of_n_examples)"));

  const std::vector<std::string> strict{every_tenth, "train_input_reader.invalid_box_policy=FAIL", "strict=true",
                                        "train_input_reader.max_number_of_boxes=1"};
  const std::string inverted = picture("i").box(.5f, 0, .2f, 1, 1).bytes();
  const std::string crowd = picture("c").box(0, 0, 1, 1, 1).box(0, 0, 1, 1, 2).bytes();
  for (const std::string& record : {inverted, crowd}) {
    with(9, record);
    EXPECT_THAT(check(strict).readers[0].stops, IsEmpty());
    with(10, record);
    EXPECT_THAT(check(strict).readers[0].stops, SizeIs(1));
  }
  // In two files: the numbers go on.
  write("train.record", sound_records(3));
  Records more = sound_records(10);
  more[7] = "no example";
  write("train_more.record", more);
  std::vector<std::string> both = tenth;
  both.push_back("train_input_reader.tf_record_input_reader.input_path=['" + folder_ / "train.record" + "', '" +
                 folder_ / "train_more.record" + "']");
  EXPECT_THAT(check(both).readers[0].stops, ElementsAre(HasSubstr("1 of 2 records")));
}

TEST_F(DatasetCheckTest, StrictCountsMergedBoxes) {
  const std::vector<std::string> merged{"train_input_reader.max_number_of_boxes=1", "strict=true",
                                        "train_config.merge_multiple_label_boxes=true"};
  write("train.record", {picture("a").box(0, 0, 1, 1, 1).box(0, 0, 1, 1, 2).bytes()});
  EXPECT_THAT(check(merged).readers[0].stops, IsEmpty());
  write("train.record", {picture("a").box(0, 0, 1, 1, 1).box(0, 0, 1, .5f, 2).bytes()});
  EXPECT_THAT(check(merged).readers[0].stops, ElementsAre(HasSubstr("1 picture has more boxes")));
}

TEST_F(DatasetCheckTest, WhatALoaderRefusesIsAnErrorOfTheConfig) {
  const auto expect = [&](config::Pipeline config, const std::string& words) {
    EXPECT_THAT([&] { check_dataset(config, {}); }, ThrowsMessage<ConfigError>(HasSubstr(words)));
  };
  expect(pipeline({"train_input_reader.sample_from_datasets_weights=[1, 2]"}), "sample_from_datasets_weights");
  expect(pipeline({"train_config.accelerator.resize.max_height=10", "train_config.accelerator.resize.max_width=999"}),
         "must be at least the network's");
  config::Pipeline external = pipeline();
  external.message->mutable_eval_input_reader(0)->mutable_external_input_reader();
  expect(external, "is not supported yet: eval_input_reader[0].external_input_reader");
}

TEST_F(DatasetCheckTest, WithoutNumClassesALabelMapOfAReaderSaysIt) {
  Records records = sound_records(2);
  records.push_back(picture("huge").box(0, 0, 1, 1, int64_t{1} << 40).bytes());
  write("train.record", records);
  config::Pipeline config = pipeline();
  config.message->mutable_model()->mutable_ssd()->clear_num_classes();
  const DatasetCheck derived = check_dataset(config, {});
  EXPECT_THAT(derived.readers[0].classes, SizeIs(3));
  EXPECT_THAT(derived.readers[0].unknown_classes, SizeIs(1));
  config.message->mutable_model()->mutable_ssd()->clear_num_classes();
  config.message->mutable_train_input_reader()->clear_label_map_path();
  EXPECT_THAT(check_dataset(config, {}).readers[0].classes, SizeIs(3)) << "that of the evaluation";
  config.message->mutable_model()->mutable_ssd()->clear_num_classes();
  config.message->mutable_eval_input_reader(0)->clear_label_map_path();
  EXPECT_THAT([&] { check_dataset(config, {}); }, ThrowsMessage<ConfigError>(HasSubstr("num_classes: must be >= 1")));
}

TEST_F(DatasetCheckTest, AReaderOfAnotherProgramIsNotLookedAt) {
  config::Pipeline config = pipeline();
  config.message->mutable_train_input_reader()->mutable_custom()->PackFrom(proto::SsdFeatureExtractor());
  const DatasetCheck result = check_dataset(config, {});
  EXPECT_FALSE(result.would_stop());
  EXPECT_THAT(result.readers[0].warnings, ElementsAre(HasSubstr("not looked at")));
  EXPECT_EQ(result.readers[1].pictures, 1);
  EXPECT_THAT(dataset_text(result), HasSubstr("not looked at"));
}

TEST_F(DatasetCheckTest, AnnotationsThatAreCalledLikeShardsAreNone) {
  write_file(folder_ / "yolo/data.yaml", "names: [circle, square, star]\ntrain: images\n");
  write_file(folder_ / "yolo/images/clip-00001-of-00500.png", grey_png(64, 128, 9));
  write_file(folder_ / "yolo/labels/clip-00001-of-00500.txt", "0 .5 .5 .5 .5\n1 .5 .5 .5 .5\n2 .5 .5 .5 .5\n");
  const ReaderCheck train = check({"train_input_reader={label_map_path: 'label_map.pbtxt' annotation_input_reader "
                                   "{ format: YOLO input: 'yolo' } max_number_of_boxes: 16 }"})
                                .readers[0];
  EXPECT_EQ(train.boxes, 3);
  EXPECT_THAT(train.warnings, Not(Contains(HasSubstr("shards"))));
}

TEST_F(DatasetCheckTest, ControlBytesOfNamesAreEscapedInTheText) {
  write("train.record", {picture("\x1b[31mre\nd\xc2\x9b\xc3\xa9").box(.5f, 0, .2f, 1, 1).box(0, 0, 1, 1, 1).bytes()});
  const std::string text = dataset_text(check());
  EXPECT_THAT(text, HasSubstr(R"(: \x1b[31mre\x0ad\xc2\x9b)"
                              "\xc3\xa9: box 0: is inverted"));
  EXPECT_THAT(text, HasSubstr(R"(1 at most (\x1b[31mre\x0ad)"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST_F(DatasetCheckTest, AnotherNumberOfClassesIsAnErrorOfTheConfig) {
  EXPECT_THAT([&] { check({"model.ssd.num_classes=2"}); }, ThrowsMessage<ConfigError>(HasSubstr("label map")));
}

TEST_F(DatasetCheckTest, ThreadsDoNotChangeTheReport) {
  Records records = sound_records(30);
  for (int i = 0; i < 30; ++i) records.push_back(picture(std::to_string(i)).box(.5f, 0, .2f, 1, 1).bytes());
  write("train.record", records);
  const auto report = [&](int threads) {
    config::Pipeline config = pipeline();
    return dataset_json(check_dataset(config, {.num_workers = threads, .num_pictures = 4}));
  };
  EXPECT_EQ(report(1), report(4));
}

TEST_F(DatasetCheckTest, TheTextHasTheFirstOfAKindAndTheJsonAll) {
  ExampleRecord record = picture("many");
  for (int i = 0; i < 9; ++i) record.box(.5f, 0, .2f, 1, 1);
  record.box(std::nanf(""), 0, 1, 1, 1);
  write("train.record", {record.bytes()});
  const DatasetCheck result = check();
  EXPECT_THAT(dataset_text(result), AllOf(HasSubstr("9 x box is inverted (box left out)"), HasSubstr("many: box 2: "),
                                          HasSubstr("and 6 more"), Not(HasSubstr("many: box 3: "))));
  const auto json = nlohmann::json::parse(dataset_json(result));
  EXPECT_EQ(json["would_stop"], false);
  const auto& problems = json["readers"][0]["problems"];
  ASSERT_EQ(problems.size(), 10);
  EXPECT_EQ(problems[8]["box"], 8);
  EXPECT_EQ(problems[8]["picture"], "many");
  EXPECT_FLOAT_EQ(problems[8]["values"]["ymax"], 0.2f);
  EXPECT_EQ(problems[9]["values"]["ymin"], "nan");
}

TEST_F(DatasetCheckTest, TheProgramHasExitCodesJsonAndPictures) {
  write("train.record", {sound("a"), picture("b/../bad one").box(.5f, 0, .2f, 1, 1).bytes(), sound("c")});
  const std::string json = folder_ / "report.json", drawn = folder_ / "drawn";
  EXPECT_EQ(run(fmt::format("--json '{}' --output_dir '{}' --num_pictures 2", json, drawn)), 0) << said_;
  EXPECT_THAT(said_, AllOf(HasSubstr("1 x box is inverted"), HasSubstr("2 drawings in"), HasSubstr("ready to train")));
  EXPECT_EQ(nlohmann::json::parse(read_file(json))["readers"].size(), 2);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(drawn))
    files.push_back(entry.path().filename().string());
  std::ranges::sort(files);
  EXPECT_THAT(files, ElementsAre("01_train_input_reader_bad_one.jpg", "02_train_input_reader_a.jpg"));
  const at::Tensor picture = data::decode_image(read_file((std::filesystem::path(drawn) / files[0]).string()));
  EXPECT_EQ(picture.sizes(), (at::IntArrayRef{64, 128, 3}));
  const auto red_pixels = [&](const std::string& file) {
    const at::Tensor image = data::decode_image(read_file((std::filesystem::path(drawn) / file).string()));
    return image.select(2, 0).gt(180).logical_and(image.select(2, 1).lt(60)).sum().item<int64_t>();
  };
  EXPECT_GT(red_pixels(files[0]), 100 + red_pixels(files[1]));
  EXPECT_EQ(run(fmt::format("--json - --output_dir '{}'", drawn)), 0) << said_;
  EXPECT_THAT(said_, AllOf(HasSubstr("\"would_stop\": false"), Not(HasSubstr("ready to train")),
                           Not(HasSubstr("drawings in"))));
  EXPECT_FALSE(std::filesystem::exists("-"));

  damage("train.record",
         static_cast<int64_t>(std::filesystem::file_size(folder_ / "train.record")) - 1);  // the last record
  EXPECT_EQ(run(fmt::format("--output_dir '{}'", folder_ / "of_damaged")), 3) << said_;
  EXPECT_THAT(said_, HasSubstr("3 drawings in"));
  const std::string sound_file = read_file(folder_ / "train.record");
  write_file(folder_ / "train.record", sound_file.substr(0, sound_file.size() - 9));
  EXPECT_EQ(run(fmt::format("--output_dir '{}'", folder_ / "of_cut")), 3) << said_;
  EXPECT_THAT(said_, HasSubstr("3 drawings in"));
  EXPECT_EQ(run(fmt::format("--output_dir '{}'", folder_ / "train.record")), 3) << "cannot be written";

  EXPECT_EQ(run("--set train_input_reader.invalid_box_policy=FAIL"), 3) << said_;
  EXPECT_THAT(said_, HasSubstr("training would end: invalid_box_policy is FAIL; invalid boxes: 1"));
  EXPECT_EQ(run("--set model.ssd.num_classes=2"), 2) << said_;
  EXPECT_EQ(run("--json /nowhere/report.json"), 3) << said_;
}

}  // namespace
}  // namespace osprey::train
