#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "osprey/base/error.h"
#include "osprey/data/coco.h"
#include "osprey/data/voc.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

std::string object(const std::string& name, const std::string& box, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more + "<bndbox>" + box + "</bndbox></object>";
}

std::string corners(const std::string& xmin, const std::string& ymin, const std::string& xmax,
                    const std::string& ymax) {
  return "<xmin>" + xmin + "</xmin><ymin>" + ymin + "</ymin><xmax>" + xmax + "</xmax><ymax>" + ymax + "</ymax>";
}

std::string xml(const std::string& file_name, const std::string& objects) {
  return "<annotation><filename>" + file_name + "</filename><size><width>40</width><height>30</height></size>" +
         objects + "</annotation>";
}

AnnotatedImage read(const AnnotationSource& source, int64_t index, Problems& problems) {
  AnnotatedImage image;
  EXPECT_TRUE(source.read(index, image, problems));
  return image;
}

TEST(Voc, ReadsObjectsAndFindsThePictureInTheUsualPlaces) {
  TempDir dir;
  write_file(dir / "Annotations/a.xml", xml("a.jpg", object("dog", corners("1", "2.5", "30", "20"),
                                                            "<difficult>1</difficult><truncated>1</truncated>") +
                                                         object("cat", corners(" 0 ", "0", "40", "30"))));
  write_file(dir / "JPEGImages/a.jpg", "x");
  write_file(dir / "more/deep/b.XML", xml("", ""));
  write_file(dir / "more/deep/b.png", "x");
  write_file(dir / "more/c.xml", xml("C:\\pictures\\c.jpg", ""));
  write_file(dir / "more/images/c.jpg", "x");
  Problems problems;
  const auto source = open_voc({dir.path().string(), "", ""}, problems);
  ASSERT_EQ(source->size(), 3);
  const AnnotatedImage a = read(*source, 0, problems);
  EXPECT_EQ(a.path, dir / "JPEGImages/a.jpg");
  EXPECT_EQ(a.source_id, "a.jpg");
  EXPECT_EQ(a.width, 40);
  EXPECT_EQ(a.height, 30);
  ASSERT_EQ(a.objects.size(), 2u);
  EXPECT_EQ(a.objects[0].name, "dog");
  EXPECT_EQ(a.objects[0].box_px, (Box{2.5f, 1, 20, 30}));
  EXPECT_TRUE(a.objects[0].difficult);
  EXPECT_TRUE(a.objects[0].truncated);
  EXPECT_FALSE(a.objects[1].difficult);
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "cat"), Pair(2, "dog")));
  EXPECT_EQ(read(*source, 1, problems).path, dir / "more/images/c.jpg");
  EXPECT_EQ(read(*source, 2, problems).path, dir / "more/deep/b.png");
  EXPECT_THAT(problems.lines(), IsEmpty());
}

TEST(Voc, BrokenFilesAndObjectsAreCountedAndNamed) {
  TempDir dir;
  write_file(dir / "a.xml", "<annotation><object>");
  write_file(dir / "b.xml", "<other/>");
  write_file(dir / "c.xml",
             xml("c.jpg", object("", corners("1", "1", "2", "2")) + object("dog", corners("1", "one", "2", "2")) +
                              "<object><name>dog</name></object>"));
  Problems problems;
  const auto source = open_voc({dir.path().string(), "", ""}, problems);
  AnnotatedImage image;
  EXPECT_FALSE(source->read(0, image, problems));
  EXPECT_FALSE(source->read(1, image, problems));
  EXPECT_TRUE(source->read(2, image, problems));
  EXPECT_THAT(image.objects, IsEmpty());
  EXPECT_EQ(image.path, "");
  EXPECT_THAT(problems.lines(),
              ElementsAre(AllOf(HasSubstr("2 XML file(s) left out"), HasSubstr("a.xml: "), HasSubstr("at byte"),
                                HasSubstr("b.xml: no <annotation>")),
                          AllOf(HasSubstr("1 object(s) left out, having no box"), HasSubstr("c.xml object 2")),
                          HasSubstr("1 object(s) left out, having no name"),
                          AllOf(HasSubstr("1 object(s) left out, their coordinates not being numbers"),
                                HasSubstr("c.xml object 1"))));
}

TEST(Voc, OnlyTrueAndNumbersAboveZeroSayYes) {
  TempDir dir;
  const auto is_difficult = [&](const std::string& word) {
    write_file(dir / "a.xml",
               xml("a.jpg", object("dog", corners("1", "1", "2", "2"), "<difficult>" + word + "</difficult>")));
    Problems problems;
    return read(*open_voc({dir.path().string(), "", ""}, problems), 0, problems).objects.at(0).difficult;
  };
  for (const char* yes : {"1", "true", "True", " TRUE ", "1.0"}) EXPECT_TRUE(is_difficult(yes)) << yes;
  for (const char* no : {"0", "false", "False", "FALSE", "Unspecified", "", "0.0", "-1"})
    EXPECT_FALSE(is_difficult(no)) << no;
}

TEST(Voc, FoldersThatLinksLeadToAreSearched) {
  TempDir dir, elsewhere;
  write_file(elsewhere / "xml/train/a.xml", xml("a.jpg", ""));
  write_file(elsewhere / "photos/a.jpg", "x");
  fs::create_directory(dir / "set");
  fs::create_directory_symlink(elsewhere / "xml", dir / "set/Annotations");
  fs::create_directory_symlink(elsewhere / "photos", dir / "set/JPEGImages");
  write_file(dir / "list.txt", "train/a\n");
  for (const std::string& split : {std::string(), dir / "list.txt", std::string("Annotations/train/a")}) {
    Problems problems;
    if (split.starts_with("Annotations")) write_file(dir / "list.txt", split);
    const auto source = open_voc({dir / "set", "", split.empty() ? "" : dir / "list.txt"}, problems);
    ASSERT_EQ(source->size(), 1);
    EXPECT_EQ(source->origin(0).file, dir / "set/Annotations/train/a.xml");
    EXPECT_EQ(read(*source, 0, problems).path, dir / "set/JPEGImages/a.jpg");
    EXPECT_THAT(problems.lines(), IsEmpty());
  }
}

TEST(Voc, ASplitChoosesByNameInTheOrderOfTheList) {
  TempDir dir;
  for (const char* name : {"a", "b", "c d"})
    write_file(dir / ("xml/" + std::string(name) + ".xml"),
               xml(std::string(name) + ".jpg", object(name, corners("0", "0", "1", "1"))));
  write_file(dir / "list.txt", "c d\n\n  a.jpg 1\r\nmissing -1\na\n");
  Problems problems;
  const auto source = open_voc({dir / "xml", "", dir / "list.txt"}, problems);
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(read(*source, 0, problems).source_id, "c d.jpg");
  EXPECT_EQ(read(*source, 1, problems).source_id, "a.jpg");
  EXPECT_THAT(problems.lines(), ElementsAre(HasSubstr("1 name(s) in the split list without annotation: missing -1")));
  EXPECT_EQ(source->classes().size(), 3u);  // of all data
  write_file(dir / "none.txt", "x\ny\n");
  EXPECT_THAT(
      [&] {
        open_voc({dir / "xml", "", dir / "none.txt"}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("none of its names")));
  write_file(dir / "empty.txt", "\n");
  EXPECT_THAT(
      [&] {
        open_voc({dir / "xml", "", dir / "empty.txt"}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("names no pictures")));
  EXPECT_THROW(open_voc({dir / "xml", "", dir / "missing.txt"}, problems), DataError);
}

TEST(Voc, NoFilesIsAnError) {
  TempDir dir;
  Problems problems;
  EXPECT_THAT(
      [&] {
        open_voc({dir.path().string(), "", ""}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("0 XML files")));
  EXPECT_THAT(
      [&] {
        open_voc({dir / "missing", "", ""}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("no such folder")));
}

TEST(Voc, PicturesOfOtherLayoutsAreFound) {
  TempDir dir;
  const auto place = [&](const std::string& set, const std::string& annotations, const std::string& file_name,
                         const std::string& picture, const std::string& input) {
    write_file(dir / (set + "/" + annotations), xml(file_name, ""));
    write_file(dir / (set + "/" + picture), "x");
    Problems problems;
    const auto source = open_voc({dir / (set + input), "", ""}, problems);
    EXPECT_EQ(read(*source, 0, problems).path, dir / (set + "/" + picture)) << set;
    EXPECT_THAT(problems.lines(), IsEmpty());
  };
  place("fiftyone", "labels/a.xml", "a.jpg", "data/a.jpg", "");
  place("fiftyone2", "labels/a.xml", "a.jpg", "data/a.jpg", "/labels");
  place("flat", "Annotations/a.xml", "a.jpg", "JPEGImages/train/a.jpg", "");
  place("mirrored", "Annotations/train/a.xml", "a.jpg", "JPEGImages/train/a.jpg", "");
  place("mirrored2", "Annotations/train/a.xml", "a.jpg", "JPEGImages/train/a.jpg", "/Annotations/");
  place("windows", "Annotations/a.xml", "train\\a.jpg", "JPEGImages/train/a.jpg", "");
  place("one_folder", "Annotations/train/a.xml", "a.jpg", "images/a.jpg", "");
}

TEST(Voc, APictureOfSeveralFoldersIsThatOfItsSubsetOrOfNone) {
  TempDir dir;
  for (const char* subset : {"train", "val"}) {
    write_file(dir / ("set/Annotations/" + std::string(subset) + "/a.xml"), xml("a.jpg", ""));
    write_file(dir / ("set/JPEGImages/" + std::string(subset) + "/a.jpg"), "x");
  }
  write_file(dir / "set/more/a.xml", xml("a.jpg", ""));
  write_file(dir / "images/b.jpg", "another set's");
  write_file(dir / "set/more/b.xml", xml("b.jpg", ""));
  Problems problems;
  const auto source = open_voc({dir / "set", "", ""}, problems);
  EXPECT_EQ(read(*source, 0, problems).path, dir / "set/JPEGImages/train/a.jpg");
  EXPECT_EQ(read(*source, 1, problems).path, dir / "set/JPEGImages/val/a.jpg");
  EXPECT_THAT(problems.lines(), IsEmpty());
  EXPECT_EQ(read(*source, 2, problems).path, "");
  EXPECT_THAT(problems.lines(), ElementsAre(AllOf(HasSubstr("1 picture name(s) that several folders have"),
                                                  HasSubstr("JPEGImages/train/a.jpg, "), HasSubstr("val/a.jpg"))));
  EXPECT_EQ(read(*source, 3, problems).path, "");
}

TEST(Voc, APictureOfTheNameInTheFolderOfAnotherSubsetIsNotTaken) {
  TempDir dir;
  for (const char* subset : {"train", "val"})
    for (const char* set : {"set/Annotations/", "flat/Annotations/", "direct/"})
      write_file(dir / (std::string(set) + subset + "/1.xml"), xml("1.png", ""));
  write_file(dir / "set/JPEGImages/train/1.png", "x");
  write_file(dir / "flat/images/1.png", "x");  // of which of the two?
  write_file(dir / "direct/images/train/1.png", "x");
  const auto paths = [&](const std::string& input, const std::string& image_dir = "") {
    Problems problems;
    const auto source = open_voc({dir / input, image_dir, ""}, problems);
    std::vector<std::string> result;
    for (int64_t i = 0; i < source->size(); ++i) result.push_back(read(*source, i, problems).path);
    const int64_t missing = std::count(result.begin(), result.end(), "");
    EXPECT_EQ(problems.count("picture(s) of the name but in another folder, not taken"), missing) << input;
    return result;
  };
  const std::string train = dir / "set/JPEGImages/train/1.png";
  EXPECT_THAT(paths("set"), ElementsAre(train, ""));
  EXPECT_THAT(paths("set/Annotations"), ElementsAre(train, ""));
  EXPECT_THAT(paths("set", dir / "set/JPEGImages"), ElementsAre(train, ""));
  EXPECT_THAT(paths("flat"), ElementsAre("", ""));
  EXPECT_THAT(paths("flat", dir / "flat/images"), ElementsAre("", ""));
  EXPECT_THAT(paths("direct"), ElementsAre(dir / "direct/images/train/1.png", ""));
}

TEST(Voc, APictureThatXmlsOfSeveralFoldersAskForIsNotTaken) {
  TempDir dir;
  write_file(dir / "Annotations/train/x.xml", xml("a.png", ""));
  write_file(dir / "Annotations/val/y.xml", xml("C:\\set\\a.png", ""));
  write_file(dir / "Annotations/val/a.xml", xml("b.png", ""));
  for (const char* subset : {"train", "val"})  // of another name than their pictures
    write_file(dir / ("Annotations/" + std::string(subset) + "/" + subset + "_1.xml"), xml("image.png", ""));
  for (const char* picture : {"a", "b", "train_1", "val_1"})
    write_file(dir / ("JPEGImages/" + std::string(picture) + ".png"), "x");
  for (const std::string& image_dir : {std::string(), dir / "JPEGImages"}) {
    Problems problems;
    const auto source = open_voc({dir.path().string(), image_dir, ""}, problems);
    std::vector<std::string> paths;
    for (int64_t i = 0; i < source->size(); ++i) paths.push_back(read(*source, i, problems).path);
    EXPECT_THAT(paths, ElementsAre(dir / "JPEGImages/train_1.png", "", dir / "JPEGImages/b.png",
                                   dir / "JPEGImages/val_1.png", ""));
    EXPECT_EQ(problems.count("picture(s) of the name but in another folder, not taken"), 2);
  }
}

TEST(Voc, AFolderInTheXmlIsThatOfThePicture) {
  TempDir dir;
  write_file(dir / "Annotations/a.xml", xml("train\\a.jpg", ""));
  write_file(dir / "Annotations/b.xml", xml("train\\b.jpg", ""));
  write_file(dir / "JPEGImages/deep/train/a.jpg", "x");
  write_file(dir / "JPEGImages/val/b.jpg", "x");
  Problems problems;
  const auto source = open_voc({dir.path().string(), "", ""}, problems);
  EXPECT_EQ(read(*source, 0, problems).path, dir / "JPEGImages/deep/train/a.jpg");
  EXPECT_EQ(read(*source, 1, problems).path, "");
  EXPECT_THAT(problems.lines(), ElementsAre(AllOf(HasSubstr("1 picture(s) of the name but in another folder"),
                                                  HasSubstr("JPEGImages/val/b.jpg (not in train)"))));
}

constexpr const char* kCoco = R"({
  "info": {"images": [{"id": 99}]},
  "categories": [{"id": 18, "name": "dog", "keypoints": ["nose"]}, {"id": 3, "name": "car"}],
  "images": [{"id": 7, "file_name": "train/a.jpg", "width": 40, "height": 30, "license": 1},
             {"id": 139, "file_name": "b.jpg", "width": 20, "height": 10}],
  "annotations": [
    {"id": 1, "image_id": 139, "category_id": 18, "bbox": [1.5, 2, 3.25, 4], "area": 9.5, "iscrowd": 0, "segmentation": [[1, 2, 3, 4, 5, 6]]},
    {"id": 2, "image_id": 139, "category_id": 3, "bbox": [0, 0, 20, 10], "area": 200, "iscrowd": 1,
     "segmentation": {"counts": [1, 2, 3], "size": [10, 20]}},
    {"id": 3, "image_id": 5, "category_id": 3, "bbox": [0, 0, 1, 1]},
    {"id": 4, "image_id": 7, "category_id": 4, "bbox": [0, 0, 1, 1]},
    {"id": 5, "image_id": 7, "category_id": 3, "bbox": [0, 0, 1]}]})";

TEST(Coco, ReadsObjectsOfScatteredIdsAndPassesOverTheRest) {
  TempDir dir;
  write_file(dir / "coco.json", kCoco);
  write_file(dir / "images/train/a.jpg", "x");
  Problems problems;
  const auto source = open_coco({dir / "coco.json", "", ""}, problems);
  ASSERT_EQ(source->size(), 2);
  const AnnotatedImage a = read(*source, 0, problems), b = read(*source, 1, problems);
  EXPECT_EQ(a.source_id, "7");
  EXPECT_EQ(a.path, dir / "images/train/a.jpg");
  EXPECT_EQ(b.path, "");
  EXPECT_EQ(b.width, 20);
  EXPECT_THAT(a.objects, IsEmpty());
  ASSERT_EQ(b.objects.size(), 2u);
  EXPECT_EQ(b.objects[0].name, "dog");
  EXPECT_EQ(b.objects[0].box_px, (Box{2, 1.5f, 6, 4.75f}));
  EXPECT_FLOAT_EQ(b.objects[0].area_px, 9.5f);
  EXPECT_FALSE(b.objects[0].is_crowd);
  EXPECT_TRUE(b.objects[1].is_crowd);
  EXPECT_THAT(
      problems.lines(),
      ElementsAre(
          HasSubstr("1 annotation(s) left out, being of an unknown category: annotation 3 of image 7: category_id 4"),
          HasSubstr("1 annotation(s) left out, belonging to no image: annotation 2 of image 5"),
          HasSubstr("1 object(s) left out, having no box: annotation 4 of image 7")));
  // 18 > 2 * 2 + 10: scattered, so numbered in the order of ids.
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "car"), Pair(2, "dog")));
}

TEST(Coco, PicturesOfOtherLayoutsAreFound) {
  TempDir dir;
  const auto place = [&](const std::string& set, const std::string& json, const std::string& file_name,
                         const std::string& picture) {
    write_file(dir / (set + "/" + json), R"({"images": [{"id": 1, "file_name": ")" + file_name + R"("}]})");
    write_file(dir / (set + "/" + picture), "x");
    Problems problems;
    const auto source = open_coco({dir / (set + "/" + json), "", ""}, problems);
    EXPECT_EQ(read(*source, 0, problems).path, dir / (set + "/" + picture)) << set;
    EXPECT_THAT(problems.lines(), IsEmpty());
  };
  place("fiftyone", "labels.json", "a.jpg", "data/a.jpg");
  place("label_studio", "result.json", "images/a.jpg", "images/a.jpg");
  place("label_studio2", "result.json", R"(images\\a.jpg)", "images/a.jpg");
  place("windows", "c.json", R"(C:\\set\\a.jpg)", "images/a.jpg");
  place("coco", "annotations/instances_val2017.json", "a.jpg", "val2017/a.jpg");
  place("cvat", "annotations/instances_train.json", "a.jpg", "images/train/a.jpg");
  place("cvat_default", "annotations/instances_default.json", "a.jpg", "images/a.jpg");
  place("other_name", "annotations/all.json", "a.jpg", "images/train/deep/a.jpg");
}

TEST(Coco, PicturesAreBesideALinkedFolderNotBesideTheOneItLeadsTo) {
  TempDir dir, elsewhere;
  write_file(elsewhere / "json/instances_val.json", R"({"images": [{"id": 1, "file_name": "a.jpg"}]})");
  fs::create_directory(dir / "set");
  fs::create_directory_symlink(elsewhere / "json", dir / "set/annotations");
  for (const char* picture : {"images/a.jpg", "images/val/a.jpg", "val/a.jpg", "data/deep/a.jpg"}) {
    const auto found = [&] {
      Problems problems;
      return read(*open_coco({dir / "set/annotations/instances_val.json", "", ""}, problems), 0, problems).path;
    };
    const std::string beside = dir / ("set/" + std::string(picture));
    write_file(beside, "x");
    EXPECT_EQ(found(), beside);
    fs::remove(beside);
    write_file(elsewhere / picture, "x");
    EXPECT_EQ(found(), "");
    fs::remove(elsewhere / picture);
  }
}

TEST(Coco, APictureThatLinksLeadToInSeveralWaysIsOne) {
  TempDir dir;
  write_file(dir / "set/c.json", R"({"images": [{"id": 1, "file_name": "1.jpg"}]})");
  write_file(dir / "set/images/deep/1.jpg", "x");
  fs::create_directory(dir / "set/data");
  fs::create_directory_symlink("../images", dir / "set/data/all");
  Problems problems;
  const auto source = open_coco({dir / "set/c.json", "", ""}, problems);
  EXPECT_EQ(read(*source, 0, problems).path, dir / "set/images/deep/1.jpg");
  EXPECT_THAT(problems.lines(), IsEmpty());
}

TEST(Coco, APictureOfSeveralFoldersIsThatOfItsSubsetOrOfNone) {
  TempDir dir;
  for (const char* folder : {"images", "images/train", "images/val"})
    write_file(dir / (std::string(folder) + "/a.jpg"), "x");
  for (const char* folder : {"images/x", "images/y"}) write_file(dir / (std::string(folder) + "/b.jpg"), "x");
  const char* json =
      R"({"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}, {"id": 3, "file_name": "y/b.jpg"}]})";
  write_file(dir / "annotations/instances_val.json", json);
  Problems problems;
  const auto source = open_coco({dir / "annotations/instances_val.json", "", ""}, problems);
  EXPECT_EQ(read(*source, 0, problems).path, dir / "images/val/a.jpg");
  EXPECT_EQ(read(*source, 2, problems).path, dir / "images/y/b.jpg");
  EXPECT_THAT(problems.lines(), IsEmpty());
  EXPECT_EQ(read(*source, 1, problems).path, "");
  EXPECT_THAT(problems.lines(),
              ElementsAre(HasSubstr("1 picture name(s) that several folders have; --image_dir says which")));
}

TEST(Coco, APictureOfTheNameInAnotherFolderIsNotTaken) {
  TempDir dir;
  const char* json = R"({"images": [{"id": 1, "file_name": "train/1.png"}, {"id": 2, "file_name": "val/1.png"},
    {"id": 3, "file_name": "x/train/2.png"}, {"id": 4, "file_name": "y/train/2.png"}]})";
  for (const char* file : {"c.json", "flat/set/c.json"}) write_file(dir / file, json);
  for (const char* picture : {"images/train/1.png", "images/deep/x/train/2.png", "flat/set/images/1.png"})
    write_file(dir / picture, "x");
  const auto paths = [&](const std::string& input, const std::string& image_dir, int64_t not_taken) {
    Problems problems;
    const auto source = open_coco({dir / input, image_dir, ""}, problems);
    std::vector<std::string> result;
    for (int64_t i = 0; i < source->size(); ++i) result.push_back(read(*source, i, problems).path);
    EXPECT_EQ(problems.count("picture(s) of the name but in another folder, not taken"), not_taken) << input;
    return result;
  };
  const auto found = ElementsAre(dir / "images/train/1.png", "", dir / "images/deep/x/train/2.png", "");
  EXPECT_THAT(paths("c.json", "", 2), found);
  EXPECT_THAT(paths("c.json", dir / "images", 2), found);
  EXPECT_THAT(paths("flat/set/c.json", "", 2), ElementsAre("", "", "", ""));
  EXPECT_THAT(paths("flat/set/c.json", dir / "flat/set/images", 2), ElementsAre("", "", "", ""));
}

TEST(Coco, ANameWithoutAFolderIsNotThatOfAnotherPictureInAFolder) {
  TempDir dir;
  const auto paths = [&](const std::string& input, int64_t not_taken, const std::string& image_dir = "") {
    Problems problems;
    const auto source = open_coco({dir / input, image_dir, ""}, problems);
    std::vector<std::string> result;
    for (int64_t i = 0; i < source->size(); ++i) result.push_back(read(*source, i, problems).path);
    EXPECT_EQ(problems.count("picture(s) of the name but in another folder, not taken"), not_taken) << input;
    return result;
  };
  const char* json = R"({"images": [{"id": 1, "file_name": "1.png"}, {"id": 2, "file_name": "a/1.png"}]})";
  // Of a subset "a", whose folder comes first, and of none.
  for (const char* file : {"annotations/c.json", "annotations/instances_a.json"}) {
    fs::remove_all(dir / "images");
    write_file(dir / file, json);
    write_file(dir / "images/a/1.png", "x");
    EXPECT_THAT(paths(file, 1), ElementsAre("", dir / "images/a/1.png"));
    EXPECT_THAT(paths(file, 1, dir / "images"), ElementsAre("", dir / "images/a/1.png"));
    write_file(dir / "images/1.png", "x");
    EXPECT_THAT(paths(file, 0), ElementsAre(dir / "images/1.png", dir / "images/a/1.png"));
  }
  // A picture that the set has twice is that of both.
  write_file(dir / "c.json", R"({"images": [{"id": 1, "file_name": "2.png"}, {"id": 2, "file_name": "./2.png"}]})");
  write_file(dir / "images/a/2.png", "x");
  EXPECT_THAT(paths("c.json", 0), ElementsAre(dir / "images/a/2.png", dir / "images/a/2.png"));
}

TEST(Coco, NewLabelMapsKeepIdsThatServe) {
  TempDir dir;
  const auto classes = [&](const std::string& categories, const std::string& annotations) {
    write_file(dir / "c.json",
               R"({"images": [{"id": 1, "file_name": "a"}], "categories": )" + categories + annotations + "}");
    Problems problems;
    return open_coco({dir / "c.json", "", ""}, problems)->classes();
  };
  EXPECT_THAT(classes(R"([{"id": 1, "name": "a"}, {"id": 3, "name": "b"}])", ""),
              ElementsAre(Pair(1, "a"), Pair(3, "b")));
  const char* zero = R"([{"id": 0, "name": "all"}, {"id": 1, "name": "a"}])";
  EXPECT_THAT(classes(zero, ""), ElementsAre(Pair(1, "a")));
  EXPECT_THAT(classes(zero, R"(, "annotations": [{"image_id": 1, "category_id": 0, "bbox": [0, 0, 1, 1]}])"),
              ElementsAre(Pair(1, "all"), Pair(2, "a")));
  EXPECT_THAT(classes(R"([{"id": 1, "name": "a"}, {"id": 2, "name": "a"}])", ""), ElementsAre(Pair(1, "a")));
}

TEST(Coco, ASplitChoosesByFileNameOrId) {
  TempDir dir;
  write_file(dir / "coco.json", kCoco);
  Problems problems;
  write_file(dir / "list.txt", "139\n");
  EXPECT_EQ(read(*open_coco({dir / "coco.json", "", dir / "list.txt"}, problems), 0, problems).file_name, "b.jpg");
  write_file(dir / "list.txt", "a\n");
  EXPECT_EQ(read(*open_coco({dir / "coco.json", "", dir / "list.txt"}, problems), 0, problems).source_id, "7");
}

TEST(Coco, FilesThatAreNoCocoAreErrors) {
  TempDir dir;
  Problems problems;
  write_file(dir / "a.json", R"({"images": [{"id": 1, )");
  EXPECT_THAT(
      [&] {
        open_coco({dir / "a.json", "", ""}, problems);
      },
      ThrowsMessage<DataError>(AllOf(HasSubstr("a.json"), HasSubstr("not valid JSON at byte"))));
  write_file(dir / "b.json", "{}");
  EXPECT_THAT(
      [&] {
        open_coco({dir / "b.json", "", ""}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("has no \"images\"")));
  EXPECT_THAT(
      [&] {
        open_coco({dir / "missing.json", "", ""}, problems);
      },
      ThrowsMessage<DataError>(HasSubstr("cannot open")));
}

TEST(Coco, NumbersThatHaveToBeWholeAreRefusedWhereTheyAreNot) {
  TempDir dir;
  Problems problems;
  const auto expect_refused = [&](const std::string& text, const std::string& what) {
    write_file(dir / "a.json", text);
    EXPECT_THAT(
        [&] {
          open_coco({dir / "a.json", "", ""}, problems);
        },
        ThrowsMessage<DataError>(AllOf(HasSubstr("a.json: "), HasSubstr(what))));
  };
  const std::string images = R"({"images": [{"id": 1.0, "file_name": "a", "width": 4e1}])";
  expect_refused(images + R"(, "annotations": [{"image_id": 1, "category_id": 1}, {"category_id": 1.5}]})",
                 "annotations[1]: category_id must be a whole number, found 1.5");
  expect_refused(images + R"(, "annotations": [{"image_id": 1e30}]})",
                 "annotations[0]: image_id must be a whole number, found 1e+30");
  expect_refused(images + R"(, "categories": [{"id": 3, "name": "car"}, {"id": 3, "name": "dog"}], "annotations": []})",
                 "categories: id 3 is both 'car' and 'dog'");
  expect_refused(images + R"(, "categories": [{"id": 18446744073709551615}]})",
                 "categories[0]: id must be a whole number");
  expect_refused(R"({"images": [{"id": 1, "width": -1e19}]})", "images[0]: width must be a whole number");
  write_file(dir / "a.json", images + "}");
  EXPECT_EQ(read(*open_coco({dir / "a.json", "", ""}, problems), 0, problems).width, 40);
}

// Python's json.dump writes them.
TEST(Coco, NanAndInfinityHarmOnlyWhereABoxHasThem) {
  TempDir dir;
  write_file(dir / "a.json", R"({"images": [{"id": 1, "file_name": "a", "width": NaN, "height": Infinity}],
    "categories": [{"id": 1, "name": "car"}], "annotations": [
    {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": NaN, "iscrowd": NaN, "segmentation": [[NaN, 1]]},
    {"image_id": 1, "category_id": 1, "bbox": [NaN, 2, 3, 4]},
    {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, -Infinity]},
    {"image_id": 1, "category_id": 1, "bbox": [1, 2, 1e300, 4]},
    {"image_id": 1, "category_id": NaN, "bbox": [1, 2, 3, 4]}]})");
  Problems problems;
  const AnnotatedImage image = read(*open_coco({dir / "a.json", "", ""}, problems), 0, problems);
  EXPECT_EQ(image.width, 0);
  EXPECT_EQ(image.height, 0);
  ASSERT_EQ(image.objects.size(), 1u);
  EXPECT_EQ(image.objects[0].box_px, (Box{2, 1, 6, 4}));
  EXPECT_EQ(image.objects[0].area_px, 0) << "that of the box";
  EXPECT_FALSE(image.objects[0].is_crowd);
  EXPECT_THAT(
      problems.lines(),
      ElementsAre("1 annotation(s) left out, being of an unknown category: annotation 4 of image 1: category_id "
                  "not given",
                  HasSubstr("3 object(s) left out, their coordinates not being numbers: annotation 1 of image "
                            "1; annotation 2 of image 1; annotation 3")));
}

TEST(Coco, ADamagedFileIsNamedWithTheByte) {
  TempDir dir;
  const auto expect_refused = [&](const std::string& text, const std::string& what) {
    write_file(dir / "a.json", text);
    Problems problems;
    EXPECT_THAT(
        [&] {
          open_coco({dir / "a.json", "", ""}, problems);
        },
        ThrowsMessage<DataError>(HasSubstr(dir / "a.json: is not valid JSON at byte " + what)));
  };
  expect_refused(R"({"images": [{"id": 1,, "file_name": "a"}]})", "21: Missing a name for object member.");
  expect_refused(R"({"images": [{"id": nan}]})", "20: Invalid value.");
  expect_refused("{\"images\": [{\"file_name\": \"\xe4.jpg\"}]}", "27: Invalid encoding in string.");
  expect_refused(R"({"images": [{"file_name": "\udce4.jpg"}]})", "38: Invalid encoding in string.");
  expect_refused(R"({"images": [{"\udce4": 1}]})", "21: Invalid encoding in string.");
  expect_refused("", "0: The document is empty.");
  expect_refused(std::string(100000, '['), "100000: ");
}

TEST(Coco, AByteOrderMarkAndLargeIdsAreRead) {
  TempDir dir;
  write_file(dir / "a.json",
             "\xEF\xBB\xBF"
             R"({"images": [{"id": 9223372036854775807, "file_name": "\u00e4\ud7ff\ud83d\ude00.jpg"}]})");
  Problems problems;
  const AnnotatedImage image = read(*open_coco({dir / "a.json", "", ""}, problems), 0, problems);
  EXPECT_EQ(image.source_id, "9223372036854775807");
  EXPECT_EQ(image.file_name, "ä\xED\x9F\xBF\U0001F600.jpg");
}

TEST(Coco, CategoriesOfOneNameAreCountedWithTheirIds) {
  TempDir dir;
  const auto lines = [&](const std::string& categories) {
    write_file(dir / "a.json", R"({"images": [{"id": 1, "file_name": "a"}], "categories": )" + categories + "}");
    Problems problems;
    open_coco({dir / "a.json", "", ""}, problems);
    return problems.lines();
  };
  EXPECT_THAT(lines(R"([{"id": 1, "name": "car"}, {"id": 2, "name": "car"}, {"id": 3, "name": "dog"}])"),
              ElementsAre("1 class(es) taken for another of the same name: " + dir / "a.json: 'car' is class 1 and "
                                                                                     "class 2"));
  EXPECT_THAT(lines(R"([{"id": 1, "name": "car"}, {"id": 1, "name": "car"}])"), IsEmpty());
  EXPECT_THAT(lines(R"([{"id": 0, "name": "car"}, {"id": 1, "name": "car"}])"), IsEmpty())
      << "the first has no objects";
}

TEST(Coco, ImagesWithoutIdOrWithADoubleOneAreCounted) {
  TempDir dir;
  write_file(dir / "a.json",
             R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}, {"file_name": "c"}]})");
  Problems problems;
  EXPECT_EQ(open_coco({dir / "a.json", "", ""}, problems)->size(), 1);
  EXPECT_EQ(problems.count("image(s) left out"), 2);
}

}  // namespace
}  // namespace osprey::data
