#include "osprey/data/csv.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/create_records.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_index.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::ThrowsMessage;

/// Pictures of 40 x 30 pixels and one file of boxes.
class CsvFiles : public ::testing::Test {
 protected:
  CsvFiles() {
    for (const char* name : {"a.jpg", "b.jpg", "deep/c.png"}) add_picture(std::string("images/") + name);
  }
  void add_picture(const std::string& name) {
    static const std::string encoded = encode_png(gradient_image(30, 40));
    write_file(dir_ / name, encoded);
  }
  std::unique_ptr<AnnotationSource> open(const std::string& text, const std::string& split = "",
                                         const std::string& class_descriptions = "") {
    write_file(dir_ / "boxes.csv", text);
    return open_csv({dir_ / "boxes.csv", "", split, class_descriptions}, problems_);
  }
  AnnotatedImage read(const AnnotationSource& source, int64_t index = 0) {
    AnnotatedImage image;
    EXPECT_TRUE(source.read(index, image, problems_));
    return image;
  }
  static std::vector<float> px(const AnnotatedObject& object) {
    return {object.box_px.xmin, object.box_px.ymin, object.box_px.xmax, object.box_px.ymax};
  }
  void expect_refused(const std::string& text, const std::string& words) {
    EXPECT_THAT([&] { open(text); }, ThrowsMessage<DataError>(HasSubstr(words))) << text;
  }
  TempDir dir_;
  Problems problems_;
};

TEST_F(CsvFiles, AHeaderNamesColumnsInAnyOrderAndCase) {
  const auto source = open(
      "\xEF\xBB\xBF\"filename\",Width,height,class,xmin,ymin,xmax,ymax\r\n"
      "b.jpg,40,30,dog,1,2,9,10.5\r\n\r\na.jpg,40,30, cat ,0,0,40,30\r\nb.jpg,40,30,cat,3,4,5,6\r\n");
  ASSERT_EQ(source->size(), 2);
  const AnnotatedImage b = read(*source), a = read(*source, 1);
  EXPECT_EQ(b.file_name, "b.jpg");
  EXPECT_EQ(b.path, dir_ / "images/b.jpg");
  EXPECT_EQ(b.width, 40);
  EXPECT_EQ(b.height, 30);
  ASSERT_EQ(b.objects.size(), 2u);
  EXPECT_EQ(b.objects[0].name, "dog");
  EXPECT_THAT(px(b.objects[0]), ElementsAre(1, 2, 9, 10.5f));
  EXPECT_EQ(a.objects.at(0).name, "cat");
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "cat"), Pair(2, "dog")));
  EXPECT_EQ(source->origin(1).describe(), dir_ / "boxes.csv" + ": a.jpg");
  EXPECT_THAT(problems_.lines(), IsEmpty());

  const auto other = open("label;y2;x2;y1;x1;remark;image_path\ndog;10;9;2;1;\"a; \"\"b\"\"\";images/deep/c.png\n");
  EXPECT_THAT(px(read(*other).objects.at(0)), ElementsAre(1, 2, 9, 10));
  EXPECT_EQ(read(*other).path, dir_ / "images/deep/c.png");
  EXPECT_EQ(read(*other).width, 0) << "not said";
}

TEST_F(CsvFiles, RowsWithoutHeaderAreThoseOfKerasRetinanet) {
  const auto source = open("images/a.jpg,1,2,9,10,dog\nimages/b.jpg,,,,,\n" + dir_ / "images/a.jpg" + ",3,4,5,6,cat\n");
  ASSERT_EQ(source->size(), 3) << "one name is absolute";
  EXPECT_THAT(px(read(*source).objects.at(0)), ElementsAre(1, 2, 9, 10));
  EXPECT_THAT(read(*source, 1).objects, IsEmpty());
  EXPECT_EQ(read(*source, 1).path, dir_ / "images/b.jpg");
  EXPECT_EQ(read(*source, 2).path, dir_ / "images/a.jpg");
  EXPECT_THAT(problems_.lines(), IsEmpty());
  EXPECT_EQ(open("images/b.jpg,,,,,\nimages/a.jpg,1,2,9,10,dog\n")->size(), 2) << "the first picture has no objects";
}

TEST_F(CsvFiles, OpenImagesHasFractionsFlagsAndNamesWithoutEnding) {
  add_picture("images/000b.png");
  write_file(dir_ / "names.csv", "/m/1,Dog\n/m/2,\"Cat, small\"\nbroken\n");
  const auto source = open(
      "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n"
      "a,xclick,/m/1,1,0.25,0.5,0.1,0.9,0,1,0,0,0\na,xclick,/m/2,1,0,1,0,1,0,-1,1,0,0\n000b,xclick,/m/"
      "2,1,0,1,0,1,,,,,\n",
      "", dir_ / "names.csv");
  const AnnotatedImage a = read(*source), b = read(*source, 1);
  EXPECT_EQ(a.source_id, "a");
  EXPECT_EQ(a.file_name, "a.jpg");
  EXPECT_EQ(b.file_name, "000b.png") << "that it is found by";
  ASSERT_EQ(a.objects.size(), 2u);
  // 0.25 * 40 = 10, 0.1 * 30 = 3, 0.5 * 40 = 20, 0.9 * 30 = 27
  EXPECT_THAT(px(a.objects[0]), ElementsAre(10, 3, 20, 27));
  EXPECT_TRUE(a.objects[0].truncated);
  EXPECT_FALSE(a.objects[0].group_of);
  EXPECT_FALSE(a.objects[1].truncated);
  EXPECT_TRUE(a.objects[1].group_of);
  EXPECT_THAT(problems_.lines(), ElementsAre(AllOf(HasSubstr("1 class description(s) left out"), HasSubstr(":3"))));
  const config::LabelMap map = new_label_map(*source, "boxes.csv", problems_);
  EXPECT_EQ(map.find("/m/2")->shown(), "Cat, small");
  EXPECT_EQ(map.find("Dog")->id, 1);
}

TEST_F(CsvFiles, GroupsReachTheRecord) {
  write_file(dir_ / "boxes.csv", "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\na,dog,0,1,0,1,0\na,dog,0,1,0,1,1\n");
  CreateRecordsOptions options;
  options.format = AnnotationFormat::kCsv;
  options.input = dir_ / "boxes.csv";
  options.label_map = dir_ / "map.pbtxt";
  options.output = dir_ / "a.record";
  create_records(options);
  const RecordIndex index({options.output});
  ReadReport report;
  const Example example = ExampleDecoder({}, nullptr).decode(index.read(0), index.origin(0), report);
  EXPECT_THAT(example.group_of, ElementsAre(0, 1));
}

TEST_F(CsvFiles, DamagedRowsAreCountedAndNamedByLine) {
  const auto source = open(
      "filename,class,xmin,ymin,xmax,ymax\n"
      "a.jpg,dog,1,2,9,10\na.jpg,dog,1,2\na.jpg,dog,1,2,nan,10\na.jpg,dog,1,2,nine,10\na.jpg,dog,1,,9,10\n"
      "a.jpg,,1,2,9,10\n,dog,1,2,9,10\n\"a.jpg,dog,1,2,9,10\n\"a.jpg\"x,dog,1,2,9,10\nb.jpg,dog,1,2,1e99,10\n");
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(read(*source).objects.size(), 1u);
  EXPECT_THAT(problems_.lines(),
              ElementsAre(AllOf(HasSubstr("1 object(s) left out, having no class"), HasSubstr("boxes.csv:7")),
                          AllOf(HasSubstr("4 object(s) left out, their coordinates not being numbers"),
                                HasSubstr("boxes.csv:4: 'a.jpg,dog,1,2,nan,10'")),
                          AllOf(HasSubstr("4 row(s) left out, having too few fields"),
                                HasSubstr("boxes.csv:3: 'a.jpg,dog,1,2'"))));
}

TEST_F(CsvFiles, WhatIsNoCsvOfBoxesIsRefusedWithItsFirstLine) {
  expect_refused("", "has no row of a picture");
  expect_refused("filename,class,xmin,ymin,xmax,ymax\n", "has no row of a picture");
  expect_refused("filename,class,xmin,ymin,xmax,ymax\n\"a.jpg\n", "has no row of a picture; 1 row(s) left out");
  expect_refused("filename,class,xmin,ymin\na.jpg,dog,1,2\n", "boxes.csv:1: is neither a header");
  expect_refused("a.jpg,1,2,9,ten,dog\n", "boxes.csv:1: is neither a header");
  expect_refused("\n\nhello\n", "boxes.csv:3: is neither a header");
  expect_refused("\xFF\xFE\x61", "is UTF-16");
  EXPECT_THAT(
      [&] {
        open_csv({dir_.path().string(), "", "", ""}, problems_);
      },
      ThrowsMessage<DataError>(HasSubstr("is a folder; the input of this format is a CSV file")));
  write_file(dir_ / "names.csv", "\n");
  EXPECT_THAT([&] { open("a.jpg,1,2,9,10,dog\n", "", dir_ / "names.csv"); },
              ThrowsMessage<DataError>(HasSubstr("names.csv: describes no classes")));
}

TEST_F(CsvFiles, FractionsWherePixelsBelongAreRefused) {
  expect_refused("filename,class,xmin,ymin,xmax,ymax\na.jpg,dog,0.1,0,0.5,1\nb.jpg,cat,0.25,0.5,0.75,0.9\n",
                 "boxes.csv: all its coordinates are between 0 and 1, but this form has pixels");
  EXPECT_EQ(open("a.jpg,0,0,1,1,dog\na.jpg,0,0,1.5,1,dog\n")->size(), 1) << "one of them cannot be a fraction";
  EXPECT_EQ(open("a.jpg,0,0,0,0,dog\n")->size(), 1) << "an empty box, which is said when it is read";
}

TEST_F(CsvFiles, ALabelMapThatCannotBeMadeSaysWhatIsWrongWithTheFile) {
  const auto expect_no_map = [&](const std::string& text, const std::string& descriptions, const std::string& words) {
    const auto source = open(text, "", descriptions);
    EXPECT_THAT([&] { new_label_map(*source, "boxes.csv", problems_); }, ThrowsMessage<DataError>(HasSubstr(words)));
  };
  expect_no_map(
      "filename;class;xmin;ymin;xmax;ymax\na.jpg;dog;1,5;2,5;9,5;10\n", "",
      "has no objects, so no classes for a label map; give one that exists as label_map; 1 object(s) left out, "
      "their coordinates not being numbers: " +
          dir_ / "boxes.csv:2: 'a.jpg;dog;1,5;2,5;9,5;10'");
  expect_no_map("a.jpg,1,2,9,10,caf\xE9\n", "", "boxes.csv: the class name 'caf\xE9' is not UTF-8");
  write_file(dir_ / "names.csv", "/m/1,caf\xE9\n");
  expect_no_map("a.jpg,1,2,9,10,/m/1\n", dir_ / "names.csv", "the class name 'caf\xE9' is not UTF-8");
}

TEST_F(CsvFiles, ASplitNamesPicturesWithOrWithoutEnding) {
  write_file(dir_ / "list.txt", "b\nno_such\n");
  const auto source = open("a.jpg,1,2,9,10,dog\nb.jpg,1,2,9,10,cat\n", dir_ / "list.txt");
  ASSERT_EQ(source->size(), 1);
  EXPECT_EQ(read(*source).file_name, "b.jpg");
  EXPECT_EQ(source->classes().size(), 2u) << "of all pictures, so that every split gives the same map";
  EXPECT_THAT(problems_.lines(), ElementsAre(HasSubstr("1 name(s) in the split list without annotation: no_such")));
}

TEST_F(CsvFiles, PicturesAreFoundInTheFolderThatTheFileIsCalledAfter) {
  add_picture("data/images/train/d.jpg");
  write_file(dir_ / "data/train_labels.csv", "filename,class,xmin,ymin,xmax,ymax\nd.jpg,dog,1,2,9,10\n");
  EXPECT_EQ(read(*open_csv({dir_ / "data/train_labels.csv", "", "", ""}, problems_)).path,
            dir_ / "data/images/train/d.jpg");
  add_picture("robo/train/e.jpg");
  write_file(dir_ / "robo/train/_annotations.csv",
             "filename,width,height,class,xmin,ymin,xmax,ymax\ne.jpg,40,30,x,1,2,9,10\n");
  EXPECT_EQ(read(*open_csv({dir_ / "robo/train/_annotations.csv", "", "", ""}, problems_)).path,
            dir_ / "robo/train/e.jpg");
}

}  // namespace
}  // namespace osprey::data
