#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "osprey/base/error.h"
#include "osprey/config/effective.h"
#include "osprey/config/label_map.h"
#include "osprey/config/parse.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"
#include "osprey/data/create_records.h"
#include "osprey/data/example_index.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/loader.h"
#include "osprey/data/reader_classes.h"
#include "support/log.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

/// The same pictures in every format: boxes that are sound, reach out of the picture or lie outside, are inverted or
/// empty; objects of two classes and of a third that the label map does not have; a picture without objects.
struct Boxes {
  struct Box {
    std::string name;
    double xmin, ymin, xmax, ymax;  // pixels
  };
  int64_t height, width;
  std::vector<Box> boxes;
};

const std::vector<Boxes>& annotated() {
  static const std::vector<Boxes> pictures = {
      {30, 40, {{"dog", 4, 3, 20, 15}, {"cat", 0, 0, 40, 30}}},
      {30, 40, {{"cat", 30, 20, 47.5, 31}, {"bird", 1, 1, 9, 9}, {"dog", 2.25, 7.125, 13.375, 29.0625}}},
      {48, 24, {{"dog", 7, 9, 7, 20}, {"dog", 20, 5, 10, 25}, {"cat", 300, 2, 400, 9}, {"dog", -500, -3, 12, 900}}},
      {40, 40, {}},
      {33, 61, {{"cat", 60.9, 32.9, 61, 33}, {"cat", -9, 1, -1, 30}, {"dog", 0.2, 0.3, 60.8, 32.7}}},
  };
  return pictures;
}

std::string picture_name(size_t index) { return fmt::format("{}.jpg", index); }

std::string voc_xml(size_t index) {
  const Boxes& picture = annotated()[index];
  std::string text = fmt::format("<annotation><filename>{}</filename><size><width>{}</width><height>{}</height></size>",
                                 picture_name(index), picture.width, picture.height);
  for (const auto& box : picture.boxes)
    text += fmt::format(
        "<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>"
        "<ymax>{}</ymax></bndbox></object>",
        box.name, box.name == "cat" ? 1 : 0, box.xmin, box.ymin, box.xmax, box.ymax);
  return text + "</annotation>";
}

std::string coco_json() {
  std::string images, annotations;
  for (size_t i = 0; i < annotated().size(); ++i) {
    const Boxes& picture = annotated()[i];
    images += fmt::format(R"({}{{"id": {}, "file_name": "{}", "width": {}, "height": {}}})", i > 0 ? "," : "", 10 + i,
                          picture_name(i), picture.width, picture.height);
    for (const auto& box : picture.boxes)
      annotations +=
          fmt::format(R"({}{{"image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "iscrowd": {}, "area": {}}})",
                      annotations.empty() ? "" : ",", 10 + i,
                      box.name == "cat"   ? 1
                      : box.name == "dog" ? 2
                                          : 3,
                      box.xmin, box.ymin, box.xmax - box.xmin, box.ymax - box.ymin, box.ymax > 100 ? 1 : 0,
                      box.xmin > 30 ? 7.5 : 0);
  }
  return fmt::format(
      R"({{"images": [{}], "annotations": [{}], "categories": [{{"id": 1, "name": "cat"}}, {{"id": 2, "name": "dog"}},
         {{"id": 3, "name": "bird"}}]}})",
      images, annotations);
}

std::string yolo_labels(size_t index) {
  const Boxes& picture = annotated()[index];
  std::string text;
  for (const auto& box : picture.boxes)
    text += fmt::format("{} {} {} {} {}\n",
                        box.name == "cat"   ? 0
                        : box.name == "dog" ? 1
                                            : 2,
                        (box.xmin + box.xmax) / 2 / static_cast<double>(picture.width),
                        (box.ymin + box.ymax) / 2 / static_cast<double>(picture.height),
                        (box.xmax - box.xmin) / static_cast<double>(picture.width),
                        (box.ymax - box.ymin) / static_cast<double>(picture.height));
  return text;
}

std::string csv() {
  std::string text = "filename,width,height,class,xmin,ymin,xmax,ymax\n";
  for (size_t i = 0; i < annotated().size(); ++i) {
    const Boxes& picture = annotated()[i];
    const std::string head = fmt::format("{},{},{},", picture_name(i), picture.width, picture.height);
    if (picture.boxes.empty()) text += head + ",,,,\n";
    for (const auto& box : picture.boxes)
      text += head + fmt::format("{},{},{},{},{}\n", box.name, box.xmin, box.ymin, box.xmax, box.ymax);
  }
  return text;
}

/// Fractions; the third picture is stored lying and was annotated upright.
std::string open_images_csv() {
  std::string text = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf\n";
  for (size_t i = 0; i < annotated().size(); ++i) {
    const Boxes& picture = annotated()[i];
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    if (picture.boxes.empty()) text += fmt::format("{},,,,,,,,,,\n", i);
    for (const auto& box : picture.boxes)
      text += fmt::format("{},xclick,{},1,{},{},{},{},0,{},{}\n", i, box.name, box.xmin / width, box.xmax / width,
                          box.ymin / height, box.ymax / height, box.xmin < 1 ? 1 : 0, box.name == "cat" ? 1 : 0);
  }
  return text;
}

std::string cvat_xml() {
  std::string text = "<annotations><meta><task><labels>";
  for (const char* name : {"cat", "dog", "bird"}) text += fmt::format("<label><name>{}</name></label>", name);
  text += "</labels></task></meta>";
  for (size_t i = 0; i < annotated().size(); ++i) {
    const Boxes& picture = annotated()[i];
    text += fmt::format(R"(<image id="{}" name="{}" width="{}" height="{}">)", i, picture_name(i), picture.width,
                        picture.height);
    for (const auto& box : picture.boxes)
      text += fmt::format(
          R"(<box label="{}" xtl="{}" ytl="{}" xbr="{}" ybr="{}"><attribute name="difficult">{}</attribute></box>)",
          box.name, box.xmin, box.ymin, box.xmax, box.ymax, box.name == "cat");
    text += "</image>";
  }
  return text + "</annotations>";
}

std::string kitti_labels(size_t index) {
  std::string text;
  for (const auto& box : annotated()[index].boxes)
    text += fmt::format("{} {} 0 -10 {} {} {} {} -1 -1 -1 -1000 -1000 -1000 -10\n", box.name, box.xmin < 1 ? 0.5 : 0,
                        box.xmin, box.ymin, box.xmax, box.ymax);
  return text;
}

/// A format as create_records and a config call it.
struct DirectFormat {
  const char* name;
  AnnotationFormat format;
  const char* input;  // below the folder
};

class DirectReader : public ::testing::TestWithParam<DirectFormat> {
 protected:
  DirectReader() {
    for (size_t i = 0; i < annotated().size(); ++i) {
      const Boxes& picture = annotated()[i];
      const bool lies = i == 2;
      const std::string jpeg = encode_jpeg(lies ? gradient_image(picture.width, picture.height)
                                                : gradient_image(picture.height, picture.width));
      write_file(dir_ / ("images/" + picture_name(i)), lies ? with_orientation(jpeg, 6) : jpeg);
      write_file(dir_ / fmt::format("xml/{}.xml", i), voc_xml(i));
      write_file(dir_ / fmt::format("labels/{}.txt", i), yolo_labels(i));
      write_file(dir_ / fmt::format("kitti/label_2/{}.txt", i), kitti_labels(i));
    }
    write_file(dir_ / "coco.json", coco_json());
    write_file(dir_ / "data.yaml", "path: .\ntrain: images\nnames: [cat, dog, bird]\n");
    write_file(dir_ / "boxes.csv", csv());
    write_file(dir_ / "open_images.csv", open_images_csv());
    write_file(dir_ / "cvat.xml", cvat_xml());
    fs::create_directory_symlink(dir_ / "images", dir_ / "kitti/image_2");
    write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }");
  }

  std::string create() const {
    CreateRecordsOptions options;
    options.format = GetParam().format;
    options.input = dir_ / GetParam().input;
    options.label_map = dir_ / "map.pbtxt";
    options.output = dir_ / "all.record";
    create_records(options);
    return options.output;
  }

  SourceOptions options(bool training) const {
    const auto augmentation = config::parse<proto::TrainConfig>(
        "data_augmentation_options { random_horizontal_flip {} } data_augmentation_options { ssd_random_crop {} }");
    SourceOptions options;
    options.training = training;
    options.batch_size = 2;
    options.num_classes = 2;
    options.max_boxes = 4;
    options.num_workers = 2;
    const auto text = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 24 width: 32 }");
    options.resizer = build_image_resizer(text.node());
    options.augmenter = build_augmenter(augmentation.node());
    return options;
  }

  std::unique_ptr<RecordSource> source(const std::string& reader, const SourceOptions& options,
                                       const std::string& more = "") const {
    const auto text = config::parse<proto::InputReader>(
        fmt::format("label_map_path: '{}' {} {}", dir_ / "map.pbtxt", reader, more), "test");
    return make_source(text.node(), options);
  }
  std::string direct(const std::string& more = "") const {
    return fmt::format("annotation_input_reader {{ format: {} input: '{}' {} }}", GetParam().name,
                       dir_ / GetParam().input, more);
  }
  std::unique_ptr<RecordSource> direct_source(const SourceOptions& options, const std::string& more = "") const {
    return source(direct(), options, more);
  }
  static bool is_yolo() { return GetParam().format == AnnotationFormat::kYolo; }
  static std::string from_records(const std::string& path) {
    return fmt::format("tf_record_input_reader {{ input_path: '{}' }}", path);
  }

  TempDir dir_;
};

void expect_equal(const Batch& a, const Batch& b, const std::string& where) {
  EXPECT_EQ(a.ids, b.ids) << where;
  for (auto field : {&Batch::images, &Batch::true_shapes, &Batch::boxes, &Batch::classes, &Batch::weights,
                     &Batch::valid, &Batch::image_weights, &Batch::example_keys, &Batch::original_sizes,
                     &Batch::is_crowd, &Batch::difficult, &Batch::group_of, &Batch::area})
    EXPECT_TRUE(at::equal(a.*field, b.*field)) << where << "\n" << a.*field << "\n" << b.*field;
}

TEST_P(DirectReader, BatchesAreThoseOfTheRecordsThatCreateRecordsWrites) {
  const std::string records = create();
  const auto expected = source(from_records(records), options(true)), given = direct_source(options(true));
  ASSERT_EQ(given->num_examples(), 5);
  for (int i = 0; i < 12; ++i) expect_equal(*given->next(), *expected->next(), fmt::format("batch {}", i));
}

TEST_P(DirectReader, ItResumesInMidEpochAndSharesItsBatches) {
  const std::string records = create();
  const auto expected = source(from_records(records), options(true));
  expected->seek(4);
  std::vector<std::unique_ptr<RecordSource>> shares;
  for (int64_t share : {0, 1}) {
    SourceOptions part = options(true);
    part.batch_size = 1;
    part.share = share;
    part.num_shares = 2;
    shares.push_back(direct_source(part));
    shares.back()->seek(4);
  }
  for (int i = 4; i < 9; ++i) {
    const Batch batch = *expected->next();
    for (int64_t share : {0, 1})
      expect_equal(*shares[static_cast<size_t>(share)]->next(), slice(batch, share, share + 1),
                   fmt::format("batch {}, share {}", i, share));
  }
}

TEST_P(DirectReader, EvaluationSeesEveryPictureOnceInTheOrderOfTheRecords) {
  const std::string records = create();
  const auto expected = source(from_records(records), options(false)), given = direct_source(options(false));
  for (int i = 0; i < 3; ++i) expect_equal(*given->next(), *expected->next(), fmt::format("batch {}", i));
  EXPECT_FALSE(given->next());
}

TEST_P(DirectReader, MaxNumberOfBoxesIsFoundByAScan) {
  SourceOptions scan = options(false);
  scan.max_boxes = 0;
  const auto expected = source(from_records(create()), scan), given = direct_source(scan);
  expect_equal(*given->next(), *expected->next(), "boxes that are left out do not count");
}

TEST_P(DirectReader, APictureThatIsNotThereIsABadRecord) {
  if (is_yolo()) write_file(dir_ / "data.yaml", "path: .\ntrain: list.txt\nnames: [cat, dog, bird]\n");
  write_file(dir_ / "list.txt", "images/0.jpg\nimages/1.jpg\nimages/2.jpg\nimages/3.jpg\nimages/4.jpg\n");
  fs::remove(dir_ / "images/1.jpg");
  write_file(dir_ / "images/3.jpg", "no picture");
  SourceOptions bad = options(true);
  bad.max_bad_fraction = 0.5;
  const auto loader = direct_source(bad);
  for (int i = 0; i < 6; ++i) loader->next();
  EXPECT_EQ(loader->num_skipped(), 2);
  for (const char* more : {"", "corrupt_image_policy: FAIL_ON_CORRUPT"})
    EXPECT_THAT(
        [&] {
          const auto failing = direct_source(options(true), more);
          for (int i = 0; i < 6; ++i) failing->next();
        },
        ThrowsMessage<DataError>(AnyOf(HasSubstr("1.jpg"), HasSubstr("3.jpg"))))
        << more;
  EXPECT_THAT(
      [&] {
        const auto evaluation = direct_source(options(false), "shuffle: false");
        for (int i = 0; i < 3; ++i) evaluation->next();
      },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr("1.jpg"), HasSubstr("not found: "), HasSubstr("corrupt_image_policy: SKIP"))));
}

TEST_P(DirectReader, InvalidBoxPolicyIsTheReaders) {
  EXPECT_THAT(
      [&] {
        const auto loader = direct_source(options(false), "invalid_box_policy: FAIL");
        for (int i = 0; i < 3; ++i) loader->next();
      },
      ThrowsMessage<DataError>(AllOf(HasSubstr("box 0"), AnyOf(HasSubstr("leaves the image"), HasSubstr("is empty")))));
  const auto boxes_of_second = [&](const std::string& policy) {
    const auto loader = direct_source(options(false), "shuffle: false invalid_box_policy: " + policy);
    return loader->next()->valid[1].sum().item<int64_t>();
  };
  // One of its two known boxes leaves the picture.
  EXPECT_EQ(boxes_of_second("DROP"), 1);
  EXPECT_EQ(boxes_of_second("CLIP"), 2);
}

TEST_P(DirectReader, WhatAnnotationsGetWrongIsToldOnceNamedByFile) {
  const std::string text = logged_by([&] {
    const auto loader = direct_source(options(true));
    for (int i = 0; i < 12; ++i) loader->next();
  });
  const std::string told = "1 object(s) left out: the label map does not have their class 'bird'";
  EXPECT_EQ(text.find(told), text.rfind(told)) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(told), HasSubstr("box(es) left out: " + dir_.path().string())));
}

TEST_P(DirectReader, ALabelMapOfOtherClassesIsRefused) {
  write_file(dir_ / "map.pbtxt", "item { id: 1 name: 'car' } item { id: 2 name: 'bus' }");
  EXPECT_THAT([&] { direct_source(options(true)); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("label_map_path"), HasSubstr("none of the classes"))));
}

TEST_P(DirectReader, ClassesComeFromTheAnnotationsWhereNoLabelMapIsGiven) {
  auto config =
      config::parse_pipeline(fmt::format("model {{ ssd {{ }} }} train_input_reader {{ {} }} eval_input_reader {{ {} }}"
                                         " eval_input_reader {{ label_map_path: '{}' {} }}",
                                         direct(), direct(), dir_ / "map.pbtxt", direct()));
  derive_classes(config);
  EXPECT_EQ(config::num_classes(*config.message), 3);
  CreateRecordsOptions create;
  create.format = GetParam().format;
  create.input = dir_ / GetParam().input;
  create.label_map = dir_ / "new.pbtxt";
  create.output = dir_ / "new.record";
  create_records(create);
  const std::string expected = config::label_map_text(config::load_label_map(create.label_map));
  const auto text = [](const proto::InputReader& reader) {
    return config::label_map_text(*config::label_map_of(reader));
  };
  EXPECT_EQ(text(config.message->train_input_reader()), expected);
  EXPECT_EQ(text(config.message->eval_input_reader(0)), expected);
  EXPECT_FALSE(config.message->eval_input_reader(1).has_label_map()) << "it names one of its own";
  const auto again = config::parse_pipeline(config::effective_text(*config.message));
  EXPECT_EQ(text(again.message->train_input_reader()), expected) << "a saved config has them";
}

INSTANTIATE_TEST_SUITE_P(Formats, DirectReader,
                         ::testing::Values(DirectFormat{"VOC", AnnotationFormat::kVoc, "xml"},
                                           DirectFormat{"COCO", AnnotationFormat::kCoco, "coco.json"},
                                           DirectFormat{"YOLO", AnnotationFormat::kYolo, "data.yaml"},
                                           DirectFormat{"CSV", AnnotationFormat::kCsv, "boxes.csv"},
                                           DirectFormat{"CSV", AnnotationFormat::kCsv, "open_images.csv"},
                                           DirectFormat{"CVAT", AnnotationFormat::kCvat, "cvat.xml"},
                                           DirectFormat{"KITTI", AnnotationFormat::kKitti, "kitti"}),
                         [](const auto& format) { return fs::path(format.param.input).stem().string(); });

TEST(DeriveClasses, AnEvaluationHasTheClassesOfTheTrainingInTheirOrder) {
  TempDir dir;
  write_file(dir / "train.csv", "a.jpg,1,2,9,9,dog\na.jpg,1,2,9,9,cat\n");
  write_file(dir / "val.csv", "b.jpg,1,2,9,9,dog\n");
  const auto reader = [&](const char* file) {
    return fmt::format("annotation_input_reader {{ format: CSV input: '{}' }}", dir / file);
  };
  auto config = config::parse_pipeline(
      fmt::format("train_input_reader {{ {} }} eval_input_reader {{ {} }}", reader("train.csv"), reader("val.csv")));
  derive_classes(config);
  const auto map = config::label_map_of(config.message->eval_input_reader(0));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->find("dog")->id, 2);
  EXPECT_EQ(config.sources->origin("eval_input_reader[0].label_map.item[0].id").source,
            "classes of train_input_reader");
  auto records = config::parse_pipeline(
      fmt::format("train_input_reader {{ tf_record_input_reader {{ input_path: 'a' }} }} eval_input_reader {{ {} }}",
                  reader("val.csv")));
  EXPECT_THAT([&] { derive_classes(records); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("eval_input_reader[0].label_map_path"),
                                               HasSubstr("train_input_reader has no label map"))));
  auto placeholder = config::parse_pipeline(
      fmt::format("model {{ ssd {{ }} }} train_input_reader {{ {} }} eval_input_reader {{ {} }}",
                  "annotation_input_reader { format: CSV input: 'PATH_TO_BE_CONFIGURED/a' }", reader("no_such.csv")));
  derive_classes(placeholder);
  EXPECT_EQ(config::num_classes(*placeholder.message), 0);
  auto gone = config::parse_pipeline(fmt::format("model {{ ssd {{ }} }} train_input_reader {{ {} }}", reader("no")));
  EXPECT_THAT(
      [&] { derive_classes(gone); },
      ThrowsMessage<DataError>(HasSubstr("train_input_reader.annotation_input_reader.input: there is no file")));
  auto missing = config::parse_pipeline(
      fmt::format("model {{ ssd {{ num_classes: 2 }} }} train_input_reader {{ {} }}", reader("no_such.csv")));
  derive_classes(missing);
  EXPECT_FALSE(missing.message->train_input_reader().has_label_map()) << "whoever reads it says that it is not there";
}

TEST(DirectReaderErrors, AreOfTheConfigOrOfTheData) {
  TempDir dir;
  write_file(dir / "a.csv", "a.jpg,1,2,9,9,dog\n");
  const auto open = [&](const std::string& reader) {
    const auto text = config::parse<proto::InputReader>(
        "label_map { item { id: 1 name: 'dog' } } annotation_input_reader { " + reader + " }", "p.config");
    open_examples(text.node(), std::make_shared<config::LabelMap>(*config::label_map_of(*text.node())));
  };
  EXPECT_THAT([&] { open("format: CSV input: '" + dir / "no.csv'"); },
              ThrowsMessage<DataError>(HasSubstr("no.csv: cannot open")));
  EXPECT_THAT([&] { open("format: CSV input: '" + dir / "a.csv' image_dir: 'no/such'"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("p.config:1:"), HasSubstr("image_dir"))));
  EXPECT_THAT(
      [&] { open("format: CSV input: '" + dir / "a.csv' split: 'train'"); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("p.config:1:"), HasSubstr("split: there is no list 'train'"))));
  EXPECT_THAT(
      [&] { open("format: CSV input: '" + dir / "a.csv' class_descriptions: 'no/such'"); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("p.config:1:"), HasSubstr("class_descriptions: there is no file"))));
  write_file(dir / "data.yaml", "train: images\nnames: [a]\n");
  EXPECT_THAT([&] { open("format: YOLO split: 'test' input: '" + dir / "data.yaml'"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("p.config:1:"), HasSubstr("split test"))));
  const auto refused = config::parse_pipeline(
      "train_input_reader { label_map_path: 'a' label_map { item { id: 1 name: 'a' } } annotation_input_reader { "
      "format: VOC class_descriptions: 'c' } num_keypoints: 1 } eval_input_reader { annotation_input_reader { input: "
      "'x' } }",
      "p.config");
  EXPECT_THAT([&] { config::validate(refused); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_input_reader.label_map: cannot stand beside"),
                                               HasSubstr("annotation_input_reader.input: must name"),
                                               HasSubstr("train_input_reader.num_keypoints: is of records alone"),
                                               HasSubstr("class_descriptions: goes with format: CSV only"),
                                               HasSubstr("annotation_input_reader.format: must be set"))));
}

/// One picture, 0.jpg of 40 x 30 pixels, and the given rows of a CSV without header.
class OnePicture : public ::testing::Test {
 protected:
  std::unique_ptr<RecordSource> source(const std::string& rows, const std::string& reader) {
    write_file(dir_ / "0.jpg", encode_jpeg(gradient_image(30, 40)));
    write_file(dir_ / "boxes.csv", rows);
    const auto text = config::parse<proto::InputReader>(
        reader + " annotation_input_reader { format: CSV input: '" + dir_ / "boxes.csv' }", "test");
    const auto resizer = config::parse<proto::ImageResizer>("fixed_shape_resizer { height: 24 width: 32 }");
    SourceOptions options;
    options.training = false;
    options.batch_size = 1;
    options.num_classes = 1;
    options.num_workers = 1;
    options.resizer = build_image_resizer(resizer.node());
    return make_source(text.node(), options);
  }
  static constexpr const char* kDogs = "label_map { item { id: 1 name: 'dog' } }";
  TempDir dir_;
};

TEST_F(OnePicture, ABoxFarOutsideIsSaidToLieOutside) {
  for (const char* box : {"400,2,480,9", "-90,2,-80,9", "4,300,8,310", "4,-300,8,-290"})
    EXPECT_THAT(
        [&] { source(fmt::format("0.jpg,{},dog\n", box), std::string(kDogs) + " invalid_box_policy: FAIL")->next(); },
        ThrowsMessage<DataError>(HasSubstr("box 0: lies outside the image")))
        << box;
}

TEST_F(OnePicture, OfManyForeignClassesTheFirstAreNamed) {
  std::string rows = "0.jpg,4,4,20,20,dog\n";
  for (int i = 0; i < 25; ++i) rows += fmt::format("0.jpg,4,4,20,20,class {}\n", i);
  const std::string text = logged_by([&] { source(rows, kDogs)->next(); });
  size_t lines = 0;
  for (size_t at = text.find("does not have"); at != std::string::npos; at = text.find("does not have", at + 1))
    ++lines;
  EXPECT_EQ(lines, 10u) << text;
  EXPECT_THAT(text, HasSubstr("and objects of 15 classes more")) << "25 - 10";
}

TEST_F(OnePicture, AMissingOneEndsAnEvaluationWhenItIsOpenedAndSaysHowToNameItsFolder) {
  EXPECT_THAT([&] { source("1.jpg,4,4,20,20,dog\n", kDogs); },
              ThrowsMessage<DataError>(
                  AllOf(HasSubstr("boxes.csv: 1.jpg: not found"), HasSubstr("image_dir says where the pictures lie"))));
  const auto skipping =
      source("1.jpg,4,4,20,20,dog\n0.jpg,4,4,20,20,dog\n", std::string(kDogs) + " corrupt_image_policy: SKIP");
  while (skipping->next()) {
  }
  EXPECT_EQ(skipping->num_skipped(), 1);
}

TEST_F(OnePicture, ALabelMapOfTheConfigIsNamedByItsField) {
  EXPECT_THAT([&] { source("0.jpg,4,4,20,20,dog\n", "label_map { item { id: 2 name: 'dog' } }"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("test:1:"), HasSubstr("label_map: has ids up to 2"))));
  const auto wrong = config::parse_pipeline(
      "train_input_reader {\n label_map { item { id: 0 name: 'dog' } } tf_record_input_reader { input_path: 'a' } }",
      "p.config");
  EXPECT_THAT([&] { config::validate(wrong); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("p.config:2:"), HasSubstr("train_input_reader.label_map"),
                                               HasSubstr("item[0].id: must be >= 1, got 0"))));
}

TEST(DirectReaderPaths, DataDirIsPutBeforeThem) {
  const auto reader = [](const std::string& text) {
    return config::parse_pipeline("train_input_reader { annotation_input_reader { " + text + " } }", "p.config",
                                  config::Overrides{.data_dir = "data"})
        .message->train_input_reader()
        .annotation_input_reader();
  };
  const auto coco = reader("format: COCO input: 'a.json' image_dir: 'PATH_TO_BE_CONFIGURED/images' split: 'list'");
  EXPECT_EQ(coco.input(), "data/a.json");
  EXPECT_EQ(coco.image_dir(), "data/images");
  EXPECT_EQ(coco.split(), "data/list");
  EXPECT_EQ(reader("format: YOLO input: '/set' split: 'val'").split(), "val") << "a split of the set";
  EXPECT_EQ(reader("format: CVAT input: '/set' split: 'Validation'").split(), "Validation");
  for (const std::string format : {"YOLO", "CVAT"})
    EXPECT_EQ(reader("format: " + format + " input: '/set' split: 'val.txt'").split(), "data/val.txt");
  EXPECT_EQ(reader("format: KITTI input: '/set' split: 'val'").split(), "data/val");
  EXPECT_EQ(reader("format: YOLO input: '/set'").input(), "/set");
}

TEST(InputFiles, OfAnnotationsAreThoseThatTellOneSetFromAnother) {
  TempDir dir;
  for (const char* file : {"b/2.xml", "b/1.xml", "b/1.jpg", "yolo/data.yaml", "yolo/labels/1.txt", "list.txt",
                           "kitti/label_2/1.txt", "kitti/image_2/1.png"})
    write_file(dir / file, "x");
  const auto files = [&](const std::string& reader) {
    return input_files(*config::parse<proto::InputReader>("annotation_input_reader { " + reader + " }").node(),
                       "reader");
  };
  EXPECT_THAT(files("format: VOC input: '" + dir / "b' split: '" + dir / "list.txt'"),
              ElementsAre(dir / "b/1.xml", dir / "b/2.xml", dir / "list.txt"));
  EXPECT_THAT(files("format: COCO input: '" + dir / "b/1.jpg'"), ElementsAre(dir / "b/1.jpg"));
  EXPECT_THAT(files("format: CVAT input: '" + dir / "b'"), ElementsAre(dir / "b/1.xml", dir / "b/2.xml"));
  EXPECT_THAT(files("format: KITTI input: '" + dir / "kitti'"), ElementsAre(dir / "kitti/label_2/1.txt"));
  EXPECT_THAT(files("format: YOLO input: '" + dir / "yolo'"),
              ElementsAre(dir / "yolo/data.yaml", dir / "yolo/labels/1.txt"));
  EXPECT_THAT(files("format: YOLO input: '" + dir / "yolo/data.yaml'"),
              ElementsAre(dir / "yolo/data.yaml", dir / "yolo/labels/1.txt"));
  std::filesystem::create_directory_symlink(dir / "b", dir / "kitti/label_2/linked");
  write_file(dir / "b/3.txt", "x");
  EXPECT_THAT(files("format: KITTI input: '" + dir / "kitti'"),
              ElementsAre(dir / "kitti/label_2/1.txt", dir / "kitti/label_2/linked/3.txt"));
  std::filesystem::create_directory_symlink(dir / "b", dir / "yolo/runs");
  EXPECT_THAT(files("format: YOLO input: '" + dir / "yolo/data.yaml'"),
              ElementsAre(dir / "yolo/data.yaml", dir / "yolo/labels/1.txt"))
      << "what lies beside the file may be of something else";
  EXPECT_THAT(files("format: YOLO input: '" + dir / "yolo'"),
              ElementsAre(dir / "yolo/data.yaml", dir / "yolo/labels/1.txt", dir / "yolo/runs/3.txt"));
  EXPECT_THAT([&] { files("format: VOC input: 'no/such'"); },
              ThrowsMessage<DataError>(HasSubstr("reader: there is no file or folder 'no/such'")));
}

}  // namespace
}  // namespace osprey::data
