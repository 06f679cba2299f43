#include "osprey/data/yolo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"
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
namespace fs = std::filesystem;

constexpr const char* kBox = "1 0.5 0.5 0.2 0.4\n";

// Pictures of 40 x 30 pixels and their labels, as the tools lay them out.
class YoloSets : public ::testing::Test {
 protected:
  void add_picture(const std::string& name) {
    static const std::string encoded = encode_png(gradient_image(30, 40));
    write_file(dir_ / name, encoded);
  }
  void add(const std::string& picture, const std::string& label_file, const std::string& labels = kBox) {
    add_picture(picture);
    write_file(dir_ / label_file, labels);
  }
  /// input  below the folder of the test
  std::unique_ptr<AnnotationSource> open(const std::string& input = "", const std::string& split = "",
                                         const std::string& image_dir = "") {
    return open_yolo({input.empty() ? dir_.path().string() : dir_ / input, image_dir, split}, problems_);
  }
  AnnotatedImage read(const AnnotationSource& source, int64_t index = 0) {
    AnnotatedImage image;
    EXPECT_TRUE(source.read(index, image, problems_));
    return image;
  }
  /// Source ids; each picture has to be there and to have one object 'b' in its middle.
  std::vector<std::string> ids(const AnnotationSource& source) {
    std::vector<std::string> result;
    for (int64_t i = 0; i < source.size(); ++i) {
      const AnnotatedImage image = read(source, i);
      result.push_back(image.source_id);
      EXPECT_TRUE(fs::is_regular_file(image.path)) << image.file_name;
      EXPECT_EQ(image.objects.size(), 1u) << image.file_name;
      if (image.objects.empty()) continue;
      EXPECT_EQ(image.objects[0].name, "b");
      expect_box(image.objects[0], 9, 16, 21, 24);
    }
    EXPECT_THAT(problems_.lines(), IsEmpty());
    return result;
  }
  static void expect_box(const AnnotatedObject& object, float ymin, float xmin, float ymax, float xmax) {
    constexpr float kRounding = 1e-5f;  // of fractions times some tens of pixels
    EXPECT_NEAR(object.box_px.ymin, ymin, kRounding);
    EXPECT_NEAR(object.box_px.xmin, xmin, kRounding);
    EXPECT_NEAR(object.box_px.ymax, ymax, kRounding);
    EXPECT_NEAR(object.box_px.xmax, xmax, kRounding);
  }
  void expect_refused(const std::string& words, const std::string& input = "") {
    EXPECT_THAT([&] { open(input); }, ThrowsMessage<DataError>(HasSubstr(words)));
  }
  TempDir dir_;
  Problems problems_;
};

TEST_F(YoloSets, UltralyticsYamlNamesFoldersOfEachSplit) {
  write_file(dir_ / "data.yaml",
             "# a set\r\npath: ../datasets/elsewhere\r\ntrain: images/train  # one\r\nval: "
             "images/val\r\ntest:\r\n\r\nnames:\r\n"
             "  0: a\r\n  1: b\r\nnc: 2\r\n");
  add("images/train/2.png", "labels/train/2.txt");
  add("images/train/deep/1.PNG", "labels/train/deep/1.txt",
      "\xEF\xBB\xBF"
      "1 0.5 0.5 0.2 0.4\r\n\r\n");
  add("images/val/3.png", "labels/val/3.txt");
  const auto train = open();
  EXPECT_THAT(ids(*train), ElementsAre("images/train/2.png", "images/train/deep/1.PNG"));
  EXPECT_THAT(train->classes(), ElementsAre(Pair(1, "a"), Pair(2, "b")));
  const AnnotatedImage image = read(*train);
  EXPECT_EQ(image.width, 40);
  EXPECT_EQ(image.height, 30);
  for (const char* name : {"val", "valid", "validation"})
    EXPECT_THAT(ids(*open("data.yaml", name)), ElementsAre("images/val/3.png"));
  EXPECT_THAT([&] { open("", "test"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("--split test"), HasSubstr("data.yaml (train, val)"))));
}

TEST_F(YoloSets, AYamlMayLieElsewhereThanItsPath) {
  write_file(dir_ / "configs/mine.yaml", "path: ../set\ntrain: [images/a, images/b]\nnames: [a, b]\n");
  add("set/images/a/1.png", "set/labels/a/1.txt");
  add("set/images/b/1.png", "set/labels/b/1.txt");
  EXPECT_THAT(ids(*open("configs")), ElementsAre("images/a/1.png", "images/b/1.png"));
}

TEST_F(YoloSets, RoboflowsPathsBeginOneFolderTooHigh) {
  write_file(dir_ / "data.yaml",
             "train: ../train/images\nval: ../valid/images\n\nnc: 2\nnames: ['a', 'b']\n\nroboflow:\n  version: 1\n");
  add("train/images/1.png", "train/labels/1.txt");
  add("valid/images/2.png", "valid/labels/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("train/images/1.png"));
  EXPECT_THAT(ids(*open("", "val")), ElementsAre("valid/images/2.png"));
}

TEST_F(YoloSets, FiftyOnesDatasetYamlIsFoundAfterItWasMoved) {
  write_file(dir_ / "dataset.yaml",
             "names:\n  0: a\n  1: b\npath: /no/such/place\ntrain: ./images/train/\nval: /no/such/place/images/val\n");
  add("images/train/1.png", "labels/train/1.txt");
  add("images/val/2.png", "labels/val/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/train/1.png"));
  EXPECT_THAT(ids(*open("", "val")), ElementsAre("images/val/2.png"));
}

TEST_F(YoloSets, AMissingFolderIsNotReplacedByThePicturesOfAllSplits) {
  write_file(dir_ / "data.yaml", "train: images/train\nval: /home/me/images\nnames: [a, b]\npath: .\n");
  add("images/1.png", "labels/1.txt");
  expect_refused("data.yaml:1: train: no such folder or list of pictures: images/train (looked for in " +
                 dir_.path().string() + ")");
  EXPECT_THAT([&] { open("", "val"); }, ThrowsMessage<DataError>(HasSubstr("data.yaml:2: val: no such folder")));
  for (const char* place : {"../images", "../images/", ".././images"}) {
    write_file(dir_ / "data.yaml", "train: " + std::string(place) + "\nnames: [a, b]\n");
    expect_refused("data.yaml:1: train: no such folder");
  }
  write_file(dir_ / "data.yaml", "train: ./images/\nnames: [a, b]\n");
  EXPECT_THAT(ids(*open()), ElementsAre("images/1.png"));
}

TEST_F(YoloSets, APictureThatAListSpellsInSeveralWaysIsReadOnce) {
  write_file(dir_ / "data.yaml", "train: [a.txt, b.txt]\nnames: [a, b]\n");
  write_file(dir_ / "a.txt", "images/1.png\n./images/1.png\nimages//1.png\n");
  write_file(dir_ / "b.txt", "images\\1.png\nimages/../images/1.png\n./images/2.png\n");
  for (const char* name : {"1", "2"})
    add("images/" + std::string(name) + ".png", "labels/" + std::string(name) + ".txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/1.png", "images/2.png"));
}

TEST_F(YoloSets, APictureThatListsGiveByWholePathsIsReadOnce) {
  write_file(dir_ / "data.yaml", "train: [train.txt, images/deep]\nnames: [a, b]\n");
  write_file(dir_ / "train.txt", "images/1.png\n" + dir_ / "images/1.png" +
                                     "\n/content/yolo/images/1.png\nD:\\yolo\\images\\1.png\nimages/deep/2.png\n");
  add("images/1.png", "labels/1.txt");
  add("images/deep/2.png", "labels/deep/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/1.png", "images/deep/2.png"));
  // A data set that is given by a path of another kind than its lists have.
  const auto relative = open_yolo({fs::relative(dir_.path()).string(), "", ""}, problems_);
  EXPECT_THAT(ids(*relative), ElementsAre("images/1.png", "images/deep/2.png"));
  // Names of pictures that are not there stay apart.
  write_file(dir_ / "train.txt", "images/1.png\n/content/3.png\n/content/./3.png\n/content/x/3.png\n");
  EXPECT_EQ(open()->size(), 4);
}

TEST_F(YoloSets, CvatsYolo11ListsPicturesBelowAFolderThatIsNotThere) {
  write_file(dir_ / "obj.data",
             "classes = 2\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\nbackup = backup/\n");
  write_file(dir_ / "obj.names", "a\nb\n");
  write_file(dir_ / "train.txt", "data/obj_train_data/x/1.png\ndata/obj_train_data/2.png\n");
  write_file(dir_ / "valid.txt", "data/obj_valid_data/1.png\n");
  add("obj_train_data/x/1.png", "obj_train_data/x/1.txt");
  add("obj_train_data/2.png", "obj_train_data/2.txt");
  add("obj_valid_data/1.png", "obj_valid_data/1.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("obj_train_data/x/1.png", "obj_train_data/2.png"));
  EXPECT_THAT(ids(*open("obj.data", "val")), ElementsAre("obj_valid_data/1.png"));
}

TEST_F(YoloSets, ListsOfOtherMachinesAreFoundByTheEndsOfTheirPaths) {
  write_file(dir_ / "data.yaml", "train: train.txt\nnames: [a, b]\n");
  write_file(dir_ / "train.txt",
             "C:\\set\\images\\1.png\r\n/home/me/set/images/2.png\r\n./images/3.png\r\n4.png\r\n\r\n4.png\r\n");
  for (const char* name : {"1", "2", "3", "4"})
    add("images/" + std::string(name) + ".png", "labels/" + std::string(name) + ".txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/1.png", "images/2.png", "images/3.png", "images/4.png"));
  EXPECT_EQ(read(*open()).file_name, "C:\\set\\images\\1.png");
}

TEST_F(YoloSets, LabelStudiosFolderHasClassesPicturesAndLabels) {
  write_file(dir_ / "classes.txt", "a\r\nb\r\n");
  write_file(dir_ / "notes.json", "{}");
  add("images/1.png", "labels/1.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/1.png"));
  EXPECT_THAT(ids(*open("classes.txt")), ElementsAre("images/1.png"));
  EXPECT_THAT([&] { open("", "val"); }, ThrowsMessage<ConfigError>(HasSubstr("classes.txt (which has none)")));
}

TEST_F(YoloSets, LabelsMayLieBesideThePictures) {
  write_file(dir_ / "classes.txt", "a\nb\n");
  add("1.png", "1.txt");
  add("sub/2.png", "sub/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("1.png", "sub/2.png"));
}

TEST_F(YoloSets, FoldersOfSplitsAreFoundWithoutADescriptionOfThem) {
  write_file(dir_ / "labels/classes.txt", "a\nb\n");
  add("images/train/1.png", "labels/train/1.txt");
  add("images/test/2.png", "labels/test/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("images/train/1.png"));
  EXPECT_THAT(ids(*open("labels/classes.txt", "test")), ElementsAre("images/test/2.png"));
}

TEST_F(YoloSets, DarknetsNamesMayStandWithoutObjData) {
  write_file(dir_ / "obj.names", "a\nb\n");
  write_file(dir_ / "images.txt", "data/1.png\n");
  add("data/1.png", "data/1.txt");
  add("data/2.png", "data/2.txt");
  EXPECT_THAT(ids(*open()), ElementsAre("data/1.png"));
}

TEST_F(YoloSets, DarknetsPathsBeginWhereItRuns) {
  write_file(dir_ / "cfg/set.data", "train = data/train.txt\nnames = data/set.names\n");
  write_file(dir_ / "data/set.names", "a\nb\n");
  write_file(dir_ / "data/train.txt", "data/images/1.png\n");
  add("data/images/1.png", "data/labels/1.txt");
  EXPECT_THAT(ids(*open("cfg")), ElementsAre("data/images/1.png"));
}

TEST_F(YoloSets, PicturesMayLieElsewhereThanLabels) {
  write_file(dir_ / "set/classes.txt", "a\nb\n");
  write_file(dir_ / "set/labels/1.txt", kBox);
  add_picture("pictures/1.png");
  EXPECT_THAT(ids(*open("set", "", dir_ / "pictures")), ElementsAre("1.png"));
  write_file(dir_ / "cvat/obj.data", "train = data/train.txt\nnames = data/obj.names\n");
  write_file(dir_ / "cvat/obj.names", "a\nb\n");
  write_file(dir_ / "cvat/train.txt", "data/obj_train_data/1.png\n");
  write_file(dir_ / "cvat/obj_train_data/1.txt", kBox);
  EXPECT_THAT(ids(*open("cvat", "", dir_ / "pictures")), ElementsAre("1.png"));
}

TEST_F(YoloSets, AListChoosesAmongThePicturesOfAllSplits) {
  write_file(dir_ / "data.yaml", "train: images/train\nval: images/val\nnames: [a, b]\n");
  for (const char* name : {"train/1", "train/2", "val/3"})
    add("images/" + std::string(name) + ".png", "labels/" + std::string(name) + ".txt");
  write_file(dir_ / "list.txt", "3\nimages/train/1.png\n");
  EXPECT_THAT(ids(*open("", dir_ / "list.txt")), ElementsAre("images/val/3.png", "images/train/1.png"));
  write_file(dir_ / "data.yaml", "train: images/train\nval: images/val\ntest: images/test\nnames: [a, b]\n");
  EXPECT_EQ(open("", dir_ / "list.txt")->size(), 2);
  EXPECT_THAT(problems_.lines(), ElementsAre(AllOf(HasSubstr("1 split(s) left out"), HasSubstr("images/test"))));
}

TEST_F(YoloSets, LinesThatAreNoObjectsAreCountedAndNamed) {
  write_file(dir_ / "classes.txt", "a\n\nc\n");
  add("1.png", "1.txt",
      "0 0.5 0.5 0.5 0.5\n"
      "0 0.5 0.5\n"
      "dog 0.5 0.5 0.5 0.5\n"
      "0.5 0.5 0.5 0.5 0.5\n"
      "0 nan 0.5 0.5 0.5\n"
      "3 0.5 0.5 0.5 0.5\n"
      "-1 0.5 0.5 0.5 0.5\n"
      "1e30 0.5 0.5 0.5 0.5\n"
      "1 0.5 0.5 0.5 0.5\n"
      "0 20 15 8 12\n"
      "0 0.5 -0.5 0.1 0.1\n"
      "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7\n"
      "2.0\t0.25 0.5 0.5 1.000001\n");
  const auto source = open();
  const AnnotatedImage image = read(*source);
  ASSERT_EQ(image.objects.size(), 2u);
  EXPECT_EQ(image.objects[0].name, "a");
  EXPECT_EQ(image.objects[1].name, "c");
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "a"), Pair(3, "c")));
  EXPECT_THAT(
      problems_.lines(),
      ElementsAre(HasSubstr("1 object(s) left out, being of a class without a name: " + dir_ / "1.txt:9: class 1"),
                  AllOf(HasSubstr("3 object(s) left out, being of an unknown class"), HasSubstr("1.txt:6: class 3")),
                  AllOf(HasSubstr("2 object(s) left out, having coordinates outside 0..1"),
                        HasSubstr("1.txt:10: '0 20 15 8 12'")),
                  AllOf(HasSubstr("5 object(s) left out, their lines not being"), HasSubstr("1.txt:2: '0 0.5 0.5'"))));
}

TEST_F(YoloSets, OutlinesBecomeBoxesAndConfidencesAreReadPast) {
  write_file(dir_ / "classes.txt", "a\n");
  // A right triangle with legs of 20 and 15 pixels: its area is 150. A turned box of four corners, and a box.
  add("1.png", "1.txt", "0 0.25 0.5 0.75 0.5 0.25 1\n0 0.5 0 1 0.5 0.5 1 0 0.5\n0 0.5 0.5 0.2 0.4 0.93\n");
  const AnnotatedImage image = read(*open());
  ASSERT_EQ(image.objects.size(), 3u);
  expect_box(image.objects[0], 15, 10, 30, 30);
  EXPECT_NEAR(image.objects[0].area_px, 150, 1e-3);
  expect_box(image.objects[1], 0, 0, 30, 40);
  EXPECT_NEAR(image.objects[1].area_px, 600, 1e-3);
  expect_box(image.objects[2], 9, 16, 21, 24);
  EXPECT_EQ(image.objects[2].area_px, 0);
  EXPECT_THAT(problems_.lines(), IsEmpty());
}

TEST_F(YoloSets, KeypointsOfPosesAreReadPast) {
  write_file(dir_ / "data.yaml", "train: images\nnames: [a]\nkpt_shape: [2, 2]\n");
  add("images/1.png", "labels/1.txt", "0 0.5 0.5 0.2 0.4 0.9 0.9 0 0\n");
  expect_box(read(*open()).objects.at(0), 9, 16, 21, 24);
  write_file(dir_ / "data.yaml", "train: images\nnames: [a]\nkpt_shape: 2\n");
  expect_refused("data.yaml:3: kpt_shape");
}

TEST_F(YoloSets, PicturesWithoutLabelsHaveNoObjectsAndAreCounted) {
  write_file(dir_ / "classes.txt", "a\nb\n");
  add("images/1.png", "labels/1.txt");
  add("images/2.png", "labels/2.txt", " \r\n");
  add("images/3.png", "labels/3.txt", "");
  add_picture("images/4.png");
  const auto source = open();
  ASSERT_EQ(source->size(), 4);
  for (int64_t i = 1; i < 4; ++i) EXPECT_THAT(read(*source, i).objects, IsEmpty());
  EXPECT_THAT(problems_.lines(),
              ElementsAre(HasSubstr("2 picture(s) with an empty label file, taken to have no objects"),
                          AllOf(HasSubstr("1 picture(s) without a label file, taken to have no objects"),
                                HasSubstr("images/4.png"))));
}

TEST_F(YoloSets, APictureWhoseLabelFileIsNoTextIsCountedAndLeftOut) {
  using namespace std::string_view_literals;
  write_file(dir_ / "classes.txt", "a\nb\n");
  add("images/1.png", "labels/1.txt");
  add("images/2.png", "labels/2.txt", std::string("1 0.5\0 0.5 0.2 0.4\n"sv));
  add("images/3.png", "labels/3.txt", std::string("\xFF\xFE\x31\0"sv));
  const auto source = open();
  AnnotatedImage image;
  EXPECT_TRUE(source->read(0, image, problems_));
  EXPECT_FALSE(source->read(1, image, problems_));
  EXPECT_FALSE(source->read(2, image, problems_));
  EXPECT_THAT(problems_.lines(),
              ElementsAre(AllOf(HasSubstr("2 picture(s) left out, their label files not being readable"),
                                HasSubstr("labels/2.txt: has NUL bytes"), HasSubstr("labels/3.txt: is UTF-16"))));
}

TEST_F(YoloSets, ASetWithoutOneLabelFileIsAnErrorThatSaysWhereTheyWere) {
  write_file(dir_ / "classes.txt", "a\n");
  add_picture("images/1.png");
  expect_refused("none of 1 pictures has a label file; that of " + dir_ / "images/1.png" + " would be " +
                 dir_ / "labels/1.txt or " + dir_ / "images/1.txt");
}

TEST_F(YoloSets, PicturesThatAreNotThereOrNoneAreLeftToWhoeverWritesThem) {
  write_file(dir_ / "data.yaml", "train: train.txt\nnames: [a, b]\n");
  write_file(dir_ / "train.txt", "missing.png\nbroken.png\n");
  write_file(dir_ / "broken.png", "text");
  write_file(dir_ / "broken.txt", kBox);
  const auto source = open();
  EXPECT_EQ(read(*source, 0).path, "");
  EXPECT_EQ(read(*source, 1).path, dir_ / "broken.png");
  EXPECT_THAT(read(*source, 1).objects, IsEmpty());
}

TEST_F(YoloSets, FractionsAreOfThePictureAsItIsSeen) {
  write_file(dir_ / "classes.txt", "a\nb\n");
  // Stored 40 wide and 30 high, to be turned by a quarter: it is seen 30 wide and 40 high.
  write_file(dir_ / "1.jpg", with_orientation(encode_jpeg(gradient_image(30, 40)), 6));
  write_file(dir_ / "1.txt", kBox);
  const AnnotatedImage image = read(*open());
  EXPECT_EQ(image.width, 30);
  EXPECT_EQ(image.height, 40);
  expect_box(image.objects.at(0), 12, 12, 28, 18);
}

TEST_F(YoloSets, ClassesWithoutNamesAreCalledByTheirNumbers) {
  add("images/1.png", "labels/1.txt");
  write_file(dir_ / "data.yaml", "train: images\nnc: 2\n");
  EXPECT_THAT(open()->classes(), ElementsAre(Pair(1, "class_0"), Pair(2, "class_1")));
  EXPECT_EQ(problems_.count("data set(s) without class names"), 1);
  write_file(dir_ / "data.yaml", "train: images\nnc: 3\nnames: {0: a, 4: b}\n");
  EXPECT_THAT(open()->classes(), ElementsAre(Pair(1, "a"), Pair(5, "b")));
  EXPECT_EQ(problems_.count("number(s) of classes that disagree with the names"), 1);
}

TEST_F(YoloSets, NamesInOtherEncodingsAreRefused) {
  add("images/1.png", "labels/1.txt", "0 0.5 0.5 0.2 0.4\n");
  const auto expect_names_refused = [&](const char* file, std::string_view text, const std::string& words) {
    write_file(dir_ / file, text);
    expect_refused(words, file);
  };
  using namespace std::string_view_literals;
  expect_names_refused("classes.txt",
                       "\xFF\xFE"
                       "a\0\n\0"sv,
                       "classes.txt: is UTF-16; save it as UTF-8");
  expect_names_refused("classes.txt", "\xFE\xFF\0a\0\n"sv, "classes.txt: is UTF-16; save it as UTF-8");
  expect_names_refused("classes.txt", "a\0\n\0"sv, "classes.txt: has NUL bytes, so it is UTF-16 or no text");
  // Latin-1; of UTF-8: cut short, longer than it has to be, a surrogate, above U+10FFFF, the rest of a character.
  for (const char* text :
       {"cat\nK\xE4se\n", "a\n\xE2\x82", "a\n\xC0\xAF", "a\n\xED\xA0\x80", "a\n\xF4\x90\x80\x80", "a\n\x80"})
    expect_names_refused("classes.txt", text, "classes.txt:2: a class name is not UTF-8; save the file as UTF-8");
  expect_names_refused("data.yaml", "train: images\nnames:\n  - cat\n  - K\xE4se\n",
                       "data.yaml:4: a class name is not UTF-8");
  const std::string name = "K\xC3\xA4se \xE2\x82\xAC \xF0\x9F\x90\x88";  // of 2, 3 and 4 bytes
  write_file(dir_ / "classes.txt", name + "\n");
  EXPECT_THAT(open("classes.txt")->classes(), ElementsAre(Pair(1, name)));
}

TEST_F(YoloSets, ClassesOfOneNameAreCounted) {
  write_file(dir_ / "classes.txt", "a\nb\na\n\n\nc\n");
  add("images/1.png", "labels/1.txt", "0 0.5 0.5 0.2 0.4\n");
  EXPECT_THAT(open()->classes(), ElementsAre(Pair(1, "a"), Pair(2, "b"), Pair(6, "c")));
  EXPECT_THAT(problems_.lines(), ElementsAre("1 class(es) taken for another of the same name: " + dir_ / "classes.txt" +
                                             ": 'a' is class 0 and class 2"));
}

TEST_F(YoloSets, DescriptionsThatSayTooLittleAreErrorsWithTheirLines) {
  expect_refused("no data.yaml, dataset.yaml, obj.data, obj.names or classes.txt");
  expect_refused("no such folder or file", "missing");
  write_file(dir_ / "a.txt", "x");
  expect_refused("is no description of a YOLO data set", "a.txt");
  const auto yaml = [&](const std::string& text, const std::string& words) {
    write_file(dir_ / "data.yaml", text);
    expect_refused(words);
  };
  yaml("train: images\n", "data.yaml: has neither names nor nc");
  yaml("train: images\nnc: many\n", "data.yaml:2: nc: 'many' is no number of classes");
  yaml("train: images\nnames: coco.names\n", "data.yaml:2: names: a list, or a map");
  yaml("train: images\nnames:\n  0: a\n  one: b\n", "data.yaml:4: names: 'one' is no class id");
  yaml("train: images\nnames:\n  0: a\n  0: b\n", "data.yaml:4: names: class id 0 stands here twice");
  yaml("train: images\nnames: []\n", "data.yaml:2: names: is empty");
  yaml("names: [a]\n", "has no train, val or test");
  yaml("train: {a: b}\nnames: [a]\n", "data.yaml:1: train: a path or a list of paths");
  fs::create_directories(dir_ / "images");
  yaml("train: images\nnames: [a]\n", "train: no pictures in images");
  fs::remove(dir_ / "data.yaml");
  write_file(dir_ / "obj.data", "train = train.txt\nnames = obj.names\n");
  expect_refused("obj.data:2: names: no such file: obj.names");
  write_file(dir_ / "obj.data", "train = train.txt\nnames\n");
  expect_refused("obj.data:2: key = value is expected");
  fs::remove(dir_ / "obj.data");
  write_file(dir_ / "a.yaml", "");
  write_file(dir_ / "b.yaml", "");
  expect_refused("has several descriptions");
}

}  // namespace
}  // namespace osprey::data
