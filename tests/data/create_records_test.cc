#include "osprey/data/create_records.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_index.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;
using Format = CreateRecordsOptions::Format;

std::string object(const std::string& name, int xmin, int ymin, int xmax, int ymax) {
  return "<object><name>" + name + "</name><bndbox><xmin>" + std::to_string(xmin) + "</xmin><ymin>" +
         std::to_string(ymin) + "</ymin><xmax>" + std::to_string(xmax) + "</xmax><ymax>" + std::to_string(ymax) +
         "</ymax></bndbox></object>";
}

// A picture of 40 x 30 pixels and its annotation.
void add_voc(const TempDir& dir, const std::string& name, const std::string& objects,
             const std::string& encoded = encode_jpeg(gradient_image(30, 40))) {
  write_file(dir / ("voc/Annotations/" + name + ".xml"),
             "<annotation><filename>" + name + ".jpg</filename><size><width>40</width><height>30</height></size>" +
                 objects + "</annotation>");
  write_file(dir / ("voc/JPEGImages/" + name + ".jpg"), encoded);
}

CreateRecordsOptions voc(const TempDir& dir) {
  CreateRecordsOptions options;
  options.format = Format::kVoc;
  options.input = dir / "voc";
  options.label_map = dir / "map.pbtxt";
  options.output = dir / "out/train.record";
  return options;
}

std::vector<Example> read_examples(const std::vector<std::string>& files, const std::string& label_map,
                                   ReadReport& report) {
  const ExampleDecoder decoder({}, std::make_shared<config::LabelMap>(config::load_label_map(label_map)));
  const RecordIndex index(files);
  std::vector<Example> examples;
  for (int64_t i = 0; i < index.size(); ++i) examples.push_back(decoder.decode(index.read(i), index.origin(i), report));
  return examples;
}

TEST(CreateRecords, WritesWhatTheDecoderReads) {
  TempDir dir;
  add_voc(dir, "a", object("dog", 4, 3, 20, 15) + object("cat", 0, 0, 40, 30));
  add_voc(dir, "b", "");
  const CreateRecordsResult result = create_records(voc(dir));
  EXPECT_EQ(result.num_images, 2);
  EXPECT_EQ(result.num_objects, 2);
  EXPECT_TRUE(result.label_map_written);
  EXPECT_THAT(result.objects_of_class, ElementsAre(Pair("cat", 1), Pair("dog", 1)));
  EXPECT_THAT(result.problems, IsEmpty());
  ReadReport report;
  const auto examples = read_examples(result.files, dir / "map.pbtxt", report);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].boxes, (std::vector<Box>{{.1f, .1f, .5f, .5f}, {0, 0, 1, 1}}));
  EXPECT_THAT(examples[0].classes, ElementsAre(1, 0));
  EXPECT_THAT(examples[0].area, ElementsAre(192, 1200));
  EXPECT_EQ(examples[0].id, "a.jpg");
  EXPECT_TRUE(examples[0].image.equal(decode_image(read_file(dir / "voc/JPEGImages/a.jpg"))));
  EXPECT_THAT(examples[1].boxes, IsEmpty());
  EXPECT_THAT(report.lines(), IsEmpty());
}

TEST(CreateRecords, UncleanBoxesAndPicturesStopNothingAndAreNamed) {
  TempDir dir;
  const std::string jpeg = encode_jpeg(gradient_image(30, 40));
  add_voc(dir, "a",
          object("dog", 0, 0, 0, 0) + object("dog", 20, 5, 10, 25) + object("dog", 30, 20, 60, 31) +
              object("dog", 50, 0, 60, 10) + object("dog", 1, 1, 40, 30));
  add_voc(dir, "empty", object("dog", 1, 1, 9, 9), "");
  add_voc(dir, "cut", object("dog", 1, 1, 9, 9), jpeg.substr(0, jpeg.size() / 2));
  add_voc(dir, "text", object("dog", 1, 1, 9, 9), "no picture");
  add_voc(dir, "missing", object("dog", 1, 1, 9, 9));
  fs::remove(dir / "voc/JPEGImages/missing.jpg");
  add_voc(dir, "size", object("dog", 1, 1, 9, 9), encode_jpeg(gradient_image(60, 80)));
  const CreateRecordsResult result = create_records(voc(dir));
  EXPECT_EQ(result.num_images, 2);
  EXPECT_EQ(result.num_objects, 3);
  EXPECT_THAT(
      result.problems,
      ElementsAre(
          AllOf(HasSubstr("1 box(es) cut to the picture"),
                HasSubstr("a.jpg object 2: xmin 30 ymin 20 xmax 60 ymax 31")),
          HasSubstr("1 box(es) left out, being empty"), HasSubstr("1 box(es) left out, being inverted"),
          HasSubstr("1 box(es) left out, lying outside the picture"),
          AllOf(HasSubstr("3 picture(s) left out, not decodable"), HasSubstr("empty.jpg: the picture has 0 bytes")),
          HasSubstr("1 picture(s) left out, not found: missing.jpg"),
          AllOf(HasSubstr("1 picture(s) of another size than annotated"), HasSubstr("80 x 60, annotated 40 x 30"))));
}

TEST(CreateRecords, PicturesAreCopiedAndNothingOfTheUsersIsChanged) {
  TempDir dir;
  for (const char* name : {"a", "b"}) add_voc(dir, name, object("dog", 1, 1, 9, 9));
  const std::string before = read_file(dir / "voc/JPEGImages/a.jpg");
  const auto time = fs::last_write_time(dir / "voc/JPEGImages/a.jpg");
  create_records(voc(dir));
  EXPECT_EQ(read_file(dir / "voc/JPEGImages/a.jpg"), before);
  EXPECT_EQ(fs::last_write_time(dir / "voc/JPEGImages/a.jpg"), time);
  RecordIndex index({dir / "out/train.record"});
  EXPECT_NE(index.read(0).find(before), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "out"), {}), 1);
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(dir / "voc"), {}), 6);
}

TEST(CreateRecords, AnExistingLabelMapIsObeyedAndNotTouched) {
  TempDir dir;
  add_voc(dir, "a", object("dog", 4, 3, 20, 15) + object("cow", 4, 3, 20, 15));
  const std::string map = "item { id: 3 name: 'dog' }\nitem { id: 1 name: 'bird' }\n# mine\n";
  write_file(dir / "map.pbtxt", map);
  const CreateRecordsResult result = create_records(voc(dir));
  EXPECT_FALSE(result.label_map_written);
  EXPECT_EQ(read_file(dir / "map.pbtxt"), map);
  EXPECT_THAT(result.problems,
              ElementsAre(HasSubstr("1 object(s) left out: the label map does not have their class 'cow'")));
  ReadReport report;
  EXPECT_THAT(read_examples(result.files, dir / "map.pbtxt", report)[0].classes, ElementsAre(2));

  write_file(dir / "map.pbtxt", "item { id: 1 name: 'bird' }");
  const std::string written = read_file(dir / "out/train.record");
  EXPECT_THAT([&] { create_records(voc(dir)); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("none of the classes"), HasSubstr("'dog'"))));
  EXPECT_EQ(read_file(dir / "out/train.record"), written);
}

TEST(CreateRecords, ShardsHoldEverythingOnceAndWorkersChangeNothing) {
  TempDir dir;
  CreateRecordsOptions options;
  options.format = Format::kShapes;
  options.num_images = 45;
  options.seed = 5;
  options.label_map = dir / "map.pbtxt";
  std::vector<std::string> bytes;
  for (int workers : {1, 3}) {
    options.num_workers = workers;
    options.num_shards = 4;
    options.output = dir / ("w" + std::to_string(workers) + "/s.record");
    int64_t reported = 0;
    const CreateRecordsResult result = create_records(options, [&](int64_t done, int64_t total) {
      reported = done;
      EXPECT_EQ(total, 45);
    });
    EXPECT_EQ(reported, 45);
    ASSERT_EQ(result.files.size(), 4u);
    EXPECT_EQ(result.files[3], options.output + "-00003-of-00004");
    EXPECT_EQ(RecordIndex({options.output + "-0000?-of-00004"}).size(), 45);
    std::string all;
    for (const std::string& file : result.files) all += read_file(file);
    bytes.push_back(all);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(config::load_label_map(dir / "map.pbtxt").items.size(), 3u);

  options.num_shards = 2;
  EXPECT_THAT(create_records(options).problems, ElementsAre(HasSubstr("4 older shard(s) beside the new ones")));
}

TEST(CreateRecords, APatternNamesTheShards) {
  TempDir dir;
  CreateRecordsOptions options;
  options.format = Format::kShapes;
  options.num_images = 4;
  options.label_map = dir / "map.pbtxt";
  options.output = dir / ("s-" + std::string(5, '?') + "-of-00002.tfrecord");
  EXPECT_THAT(create_records(options).files,
              ElementsAre(dir / "s-00000-of-00002.tfrecord", dir / "s-00001-of-00002.tfrecord"));
  EXPECT_EQ(RecordIndex({options.output}).size(), 4);
  options.num_shards = 3;
  EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<ConfigError>(HasSubstr("stands for 2 files")));
}

TEST(CreateRecords, CocoGoesTheSameWay) {
  TempDir dir;
  write_file(dir / "img/a.png", encode_png(gradient_image(30, 40)));
  write_file(
      dir / "c.json",
      R"({"images": [{"id": 5, "file_name": "a.png", "width": 40, "height": 30}], "categories": [{"id": 2, "name": "dog"}],
    "annotations": [{"image_id": 5, "category_id": 2, "bbox": [4, 3, 16, 12], "area": 100.5, "iscrowd": 1}]})");
  CreateRecordsOptions options;
  options.format = Format::kCoco;
  options.input = dir / "c.json";
  options.image_dir = dir / "img";
  options.label_map = dir / "map.pbtxt";
  options.output = dir / "coco.record";
  const CreateRecordsResult result = create_records(options);
  ReadReport report;
  const Example example = read_examples(result.files, dir / "map.pbtxt", report)[0];
  EXPECT_EQ(example.id, "5");
  EXPECT_EQ(example.boxes, (std::vector<Box>{{.1f, .1f, .5f, .5f}}));
  EXPECT_THAT(example.classes, ElementsAre(1));
  EXPECT_THAT(example.area, ElementsAre(100.5f));
  EXPECT_THAT(example.is_crowd, ElementsAre(1));
}

CreateRecordsOptions yolo(const TempDir& dir) {
  CreateRecordsOptions options;
  options.format = Format::kYolo;
  options.input = dir / "set";
  options.label_map = dir / "map.pbtxt";
  options.output = dir / "out/train.record";
  return options;
}

TEST(CreateRecords, YoloGoesTheSameWay) {
  TempDir dir;
  const std::string jpeg = encode_jpeg(gradient_image(30, 40));
  write_file(dir / "set/data.yaml", "train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n");
  write_file(dir / "set/images/train/a.jpg", jpeg);
  write_file(dir / "set/labels/train/a.txt",
             "1 0.3 0.3 0.4 0.4\n0 0.9 0.5 0.4 0.5\n0 0.5 0.5 0 0.1\n7 0.5 0.5 0.1 0.1\n");
  write_file(dir / "set/images/train/b.jpg", jpeg);
  write_file(dir / "set/images/train/c.jpg", jpeg.substr(0, jpeg.size() / 2));
  write_file(dir / "set/labels/train/c.txt", "");
  // Seen 30 wide and 40 high.
  write_file(dir / "set/images/val/d.jpg", with_orientation(jpeg, 6));
  write_file(dir / "set/labels/val/d.txt", "0 0.5 0.5 1 1\n");
  CreateRecordsOptions options = yolo(dir);
  const CreateRecordsResult result = create_records(options);
  EXPECT_TRUE(result.label_map_written);
  EXPECT_THAT(result.objects_of_class, ElementsAre(Pair("cat", 1), Pair("dog", 1)));
  EXPECT_THAT(
      result.problems,
      ElementsAre(AllOf(HasSubstr("1 box(es) cut to the picture"), HasSubstr("a.jpg object 1")),
                  HasSubstr("1 box(es) left out, being empty"),
                  AllOf(HasSubstr("1 object(s) left out, being of an unknown class"), HasSubstr("a.txt:4: class 7")),
                  HasSubstr("1 picture(s) left out, not decodable"), HasSubstr("1 picture(s) with an empty label file"),
                  HasSubstr("1 picture(s) without a label file")));
  ReadReport report;
  const auto examples = read_examples(result.files, dir / "map.pbtxt", report);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].id, "images/train/a.jpg");
  EXPECT_THAT(examples[0].classes, ElementsAre(1, 0));
  EXPECT_NEAR(examples[0].boxes[0].xmin, .1, 1e-6);
  EXPECT_NEAR(examples[0].boxes[0].ymax, .5, 1e-6);
  EXPECT_EQ(examples[0].boxes[1].xmax, 1);
  EXPECT_THAT(examples[1].boxes, IsEmpty());

  options.split = "val";
  options.output = dir / "out/val.record";
  const CreateRecordsResult val = create_records(options);
  EXPECT_FALSE(val.label_map_written);
  const Example turned = read_examples(val.files, dir / "map.pbtxt", report).at(0);
  EXPECT_EQ(turned.image.sizes(), (std::vector<int64_t>{40, 30, 3}));
  EXPECT_EQ(report.count(ReadReport::Problem::kRotatedImage), 1);

  write_file(dir / "map.pbtxt", "item { id: 5 name: 'dog' }");
  options = yolo(dir);
  EXPECT_THAT(create_records(options).problems,
              Contains(HasSubstr("2 object(s) left out: the label map does not have their class 'cat'")));
  EXPECT_THAT(read_examples(result.files, dir / "map.pbtxt", report)[0].classes, ElementsAre(4));
}

TEST(CreateRecords, ObjectsOfWhichNoneCanBeUsedAreAnError) {
  TempDir dir;
  write_file(dir / "set/classes.txt", "cat\n");
  write_file(dir / "set/images/a.jpg", encode_jpeg(gradient_image(30, 40)));
  write_file(dir / "set/labels/a.txt", "0 20 15 8 6\n");  // pixels
  EXPECT_THAT([&] { create_records(yolo(dir)); },
              ThrowsMessage<DataError>(
                  AllOf(HasSubstr("none of its objects can be used"), HasSubstr("a.txt:1: '0 20 15 8 6'"))));
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  EXPECT_FALSE(fs::exists(dir / "map.pbtxt"));
}

TEST(CreateRecords, PicturesAnnotatedUprightAreTurnedWhenRead) {
  TempDir dir;
  // Stored 40 wide and 30 high, to be turned; the annotation says 40 x 30 of the upright picture, so it is 30 wide as
  // stored.
  add_voc(dir, "a", object("dog", 4, 3, 20, 15), with_orientation(encode_jpeg(gradient_image(40, 30)), 6));
  const CreateRecordsResult result = create_records(voc(dir));
  EXPECT_THAT(result.problems, IsEmpty());
  ReadReport report;
  const Example example = read_examples(result.files, dir / "map.pbtxt", report)[0];
  EXPECT_EQ(example.image.sizes(), (std::vector<int64_t>{30, 40, 3}));
  EXPECT_EQ(report.count(ReadReport::Problem::kRotatedImage), 1);
}

TEST(CreateRecords, WhatCannotBeDoneIsSaidAndLeavesNothing) {
  TempDir dir;
  add_voc(dir, "a", object("dog", 1, 1, 9, 9), "");
  EXPECT_THAT([&] { create_records(voc(dir)); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("none of 1 pictures can be used"), HasSubstr("0 bytes"))));
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  EXPECT_FALSE(fs::exists(dir / "map.pbtxt"));

  CreateRecordsOptions options = voc(dir);
  options.num_shards = 0;
  EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<ConfigError>(HasSubstr("--num_shards")));
  options = voc(dir);
  options.num_workers = 1025;
  EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<ConfigError>(HasSubstr("--num_workers must be in")));
  options = voc(dir);
  options.format = Format::kShapes;
  EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<ConfigError>(HasSubstr("--input does not go with")));
  options = voc(dir);
  options.output = dir / "voc";
  EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<DataError>(HasSubstr("is a directory")));
  options.output = "/proc/no/such/place";
  EXPECT_THROW(create_records(options), DataError);
}

TEST(CreateRecords, AFolderOfPicturesThatIsNotThereIsAnErrorOfEveryFormat) {
  TempDir dir;
  add_voc(dir, "a", object("dog", 4, 3, 20, 15));
  write_file(dir / "set/classes.txt", "dog\n");
  write_file(dir / "set/images/a.png", encode_png(gradient_image(30, 40)));
  write_file(dir / "set/labels/a.txt", "0 0.5 0.5 0.2 0.2\n");
  for (CreateRecordsOptions options : {voc(dir), yolo(dir)}) {
    options.image_dir = dir / "missing";
    EXPECT_THAT([&] { create_records(options); },
                ThrowsMessage<ConfigError>(HasSubstr("--image_dir " + dir / "missing" + ": no such folder")));
    options.image_dir = "";
    EXPECT_EQ(create_records(options).num_images, 1);
  }
}

TEST(CreateRecords, WhatIsReadIsNotWrittenOver) {
  TempDir dir;
  write_file(dir / "img/a.png", encode_png(gradient_image(30, 40)));
  const std::string annotations =
      R"({"images": [{"id": 5, "file_name": "a.png", "width": 40, "height": 30}], "annotations": [{"image_id": 5,
       "category_id": 2, "bbox": [4, 3, 16, 12]}], "categories": [{"id": 2, "name": "dog"}]})";
  write_file(dir / "c.json", annotations);
  fs::create_symlink(dir / "c.json", dir / "link.json");
  CreateRecordsOptions options;
  options.format = Format::kCoco;
  options.image_dir = dir / "img";
  options.label_map = dir / "new/folder/map.pbtxt";
  const auto refused = [&](const std::string& input, const std::string& output, const std::string& flag) {
    options.input = input;
    options.output = output;
    EXPECT_THAT([&] { create_records(options); }, ThrowsMessage<ConfigError>(HasSubstr("is the file of " + flag)));
  };
  refused(dir / "c.json", dir / "c.json", "--input");
  refused(dir / "c.json", dir / "img/../c.json", "--input");
  refused(dir / "link.json", dir / "c.json", "--input");
  refused(dir / "c.json", options.label_map, "--label_map");
  EXPECT_EQ(read_file(dir / "c.json"), annotations);
  EXPECT_FALSE(fs::exists(options.label_map));

  options.output = dir / "out.record";
  create_records(options);
  EXPECT_TRUE(fs::exists(options.label_map));
}

TEST(CreateRecords, ReadsTheSplitsOfTheBloodCells) {
  if (!test_data()) GTEST_SKIP() << "OSPREY_TEST_DATA is not set: the blood-cell photos were not read";
  TempDir dir;
  CreateRecordsOptions options;
  options.input = (*test_data() / "data/bccd").string();
  options.label_map = dir / "map.pbtxt";
  for (const auto& [split, count] : {std::pair{"train", 205}, std::pair{"test", 72}}) {
    options.split = options.input + "/ImageSets/Main/" + split + ".txt";
    options.output = dir / (std::string(split) + ".record");
    const CreateRecordsResult result = create_records(options);
    EXPECT_EQ(result.num_images, count);
    EXPECT_EQ(result.objects_of_class.size(), 3u);
    ReadReport report;
    const auto examples = read_examples(result.files, options.label_map, report);
    EXPECT_EQ(static_cast<int>(examples.size()), count);
    EXPECT_THAT(report.lines(), IsEmpty());
    int64_t objects = 0;
    for (const Example& example : examples) objects += static_cast<int64_t>(example.boxes.size());
    EXPECT_EQ(objects, result.num_objects);
    for (const std::string& problem : result.problems) std::cout << split << ": " << problem << "\n";
  }
  const config::LabelMap map = config::load_label_map(options.label_map);
  ASSERT_EQ(map.items.size(), 3u);
  EXPECT_EQ(map.items[0].name, "Platelets");
  EXPECT_EQ(map.items[1].name, "RBC");
  EXPECT_EQ(map.items[2].name, "WBC");
}

}  // namespace
}  // namespace osprey::data
