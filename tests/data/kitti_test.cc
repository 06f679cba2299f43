#include "osprey/data/kitti.h"

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

// Lines of the benchmark; width, height, length, x, y, z and the turn of the object at the end.
constexpr const char* kCar = "Car 0.88 3 -0.69 0.00 192.37 402.31 374.00 1.60 1.57 3.23 -2.70 1.74 3.68 -1.29\n";
constexpr const char* kPerson =
    "Pedestrian 0.00 0 -0.20 712.40 143.00 810.73 307.92 1.89 0.48 1.20 1.84 1.47 8.41 0.01\n";
constexpr const char* kDontCare = "DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10\n";
// As CVAT writes it, with a score.
constexpr const char* kDog = "dog 1.0 0 -1 1.5 2 30 20.25 -1 -1 -1 -1 -1 -1 -1 1.0\n";

class Kitti : public ::testing::Test {
 protected:
  void picture(const std::string& name, int64_t height = 30, int64_t width = 40) {
    write_file(dir_ / name, grey_png(height, width, 9));
  }
  std::unique_ptr<AnnotationSource> open(const std::string& input = "", const std::string& split = "",
                                         const std::string& image_dir = "") {
    return open_kitti({input.empty() ? dir_.path().string() : input, image_dir, split}, problems_);
  }
  AnnotatedImage read(const AnnotationSource& source, int64_t index) {
    AnnotatedImage image;
    EXPECT_TRUE(source.read(index, image, problems_));
    return image;
  }
  std::vector<std::string> paths(const AnnotationSource& source) {
    std::vector<std::string> result;
    for (int64_t i = 0; i < source.size(); ++i)
      result.push_back(std::filesystem::path(read(source, i).path).lexically_relative(dir_.path()).string());
    return result;
  }
  /// The objects of one picture with these labels.
  std::vector<AnnotatedObject> objects(const std::string& labels) {
    picture("image_2/0.png");
    write_file(dir_ / "label_2/0.txt", labels);
    return read(*open(), 0).objects;
  }

  TempDir dir_;
  Problems problems_;
};

TEST_F(Kitti, ReadsObjectsInPixelsOfThePicture) {
  picture("training/image_2/000000.png", 375, 1242);
  write_file(dir_ / "training/label_2/000000.txt", std::string(kCar) + kDontCare + kPerson);
  const auto source = open(dir_ / "training");
  ASSERT_EQ(source->size(), 1);
  const AnnotatedImage image = read(*source, 0);
  EXPECT_EQ(image.source_id, "000000.png");
  EXPECT_EQ(image.path, dir_ / "training/image_2/000000.png");
  EXPECT_EQ(image.height, 375);
  EXPECT_EQ(image.width, 1242);
  ASSERT_EQ(image.objects.size(), 2u);
  EXPECT_EQ(image.objects[0].name, "Car");
  EXPECT_EQ(image.objects[0].box_px, (Box{192.37f, 0, 374, 402.31f}));
  EXPECT_TRUE(image.objects[0].truncated);
  EXPECT_FALSE(image.objects[0].difficult);
  EXPECT_EQ(image.objects[1].name, "Pedestrian");
  EXPECT_FALSE(image.objects[1].truncated);
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "Car"), Pair(2, "Pedestrian")));
  EXPECT_EQ(source->origin(0).file, dir_ / "training/label_2/000000.txt");
  EXPECT_THAT(problems_.lines(),
              ElementsAre(AllOf(HasSubstr("1 DontCare region(s) left out"), HasSubstr("000000.txt:2"))));
}

TEST_F(Kitti, DetectionsAndTypesOfSeveralWordsAreRead) {
  const auto found = objects(std::string(kDog) + "\n  road sign \t0 0 -1 1 2 3 4 -1 -1 -1 -1 -1 -1 -1 1.0\n" +
                             "7 0 0 -1 1 2 3 4 -1 -1 -1 -1 -1 -1 -1\n2 wheeler 0 0 -1 1 2 3 4 -1 -1 -1 -1 -1 -1 -1");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[3].name, "2 wheeler");
  EXPECT_EQ(found[0].box_px, (Box{2, 1.5f, 20.25f, 30}));
  EXPECT_TRUE(found[0].truncated);
  EXPECT_EQ(found[1].name, "road sign");
  EXPECT_EQ(found[1].box_px, (Box{2, 1, 4, 3}));
  EXPECT_EQ(found[2].name, "7");
  EXPECT_THAT(problems_.lines(), IsEmpty());
}

TEST_F(Kitti, RowsThatAreNoneAreCountedWithFileAndLine) {
  const auto found = objects(
      "0 0.5 0.5 0.1 0.1\n"
      "Car 0 0 0 1 2 3 4 -1 -1 -1 -1 -1 -1\n"
      "Car 0 0 0 1 2 3 4 -1 -1 -1 -1 -1 -1 -1 1 1\n"
      "Car 0 0 0 nan 2 3 4 -1 -1 -1 -1 -1 -1 -1\n"
      "Car 0 0 0 inf 2 3 4 -1 -1 -1 -1 -1 -1 -1\n"
      "Car 0 0 0 1e300 2 3 4 -1 -1 -1 -1 -1 -1 -1\n"
      "Car 0 0 0 1,5 2 3 4 -1 -1 -1 -1 -1 -1 -1\n"
      "Type 2 0.00 0 -10 100 110 200 240 -1 -1 -1 -1000 -1000 -1000 -10\n"
      "0 2 Car 0 0 0 1 2 3 4 -1 -1 -1 -1 -1 -1 -1\n"
      "Car\n" +
      std::string(kDog));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "dog");
  EXPECT_THAT(problems_.lines(), ElementsAre(AllOf(HasSubstr("10 object(s) left out, their rows not being \"type "),
                                                   HasSubstr("label_2/0.txt:1: '0 0.5 0.5 0.1 0.1'"),
                                                   HasSubstr("label_2/0.txt:2: 'Car"))));
}

TEST_F(Kitti, LabelsOfAnotherFormatAreSaidWhereClassesAreAskedFor) {
  EXPECT_THAT(objects("0 0.5 0.5 0.1 0.1\n"), IsEmpty());
  EXPECT_THAT([&] { open()->classes(); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("has no objects"), HasSubstr("0.txt:1: '0 0.5 0.5 0.1 0.1'"))));
}

TEST_F(Kitti, PicturesWithoutLabelsHaveNoObjectsAndLabelsWithoutPicturesAreNotFound) {
  for (const char* name : {"a.png", "b.png", "c.png", "c.tif"}) picture("image_2/" + std::string(name));
  write_file(dir_ / "label_2/a.txt", kDog);
  write_file(dir_ / "label_2/c.txt", "\r\n");
  write_file(dir_ / "label_2/d.txt", kDog);
  const auto source = open();
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(read(*source, 0).objects.size(), 1u);
  for (const int64_t empty : {1, 2}) EXPECT_THAT(read(*source, empty).objects, IsEmpty());
  EXPECT_EQ(source->origin(1).file, dir_ / "image_2/b.png");
  const AnnotatedImage missing = read(*source, 3);
  EXPECT_EQ(missing.path, "");
  EXPECT_EQ(missing.file_name, "d.png");
  EXPECT_THAT(problems_.lines(),
              ElementsAre(AllOf(HasSubstr("1 picture(s) left out, having the name of another"), HasSubstr("c.tif")),
                          AllOf(HasSubstr("1 picture(s) with an empty label file"), HasSubstr("label_2/c.txt")),
                          AllOf(HasSubstr("1 picture(s) without a label file"), HasSubstr("image_2/b.png"))));
}

TEST_F(Kitti, AllLayoutsAreFound) {
  const auto place = [&](const std::string& labels, const std::string& image, const std::string& input = "",
                         const std::string& image_dir = "") {
    TempDir dir;
    write_file(dir / labels, kDog);
    write_file(dir / image, grey_png(3, 4, 9));
    const auto source = open_kitti({dir / input, image_dir.empty() ? "" : dir / image_dir, ""}, problems_);
    ASSERT_EQ(source->size(), 1) << labels;
    EXPECT_EQ(read(*source, 0).path, dir / image);
  };
  place("default/label_2/a.txt", "default/image_2/a.png");
  place("default/label_2/deep/a.txt", "default/image_2/deep/a.JPG");
  place("training/label_02/a.txt", "training/image_02/a.png");
  place("labels/a.txt", "data/a.jpg");
  place("train/labels/a.txt", "train/images/a.jpg", "train/labels/");
  place("label_2/a.txt", "image_2/a.jpg", "label_2");
  place("training/label_2/a.txt", "photos/training/image_2/a.png", "", "photos");
  place("training/label_2/a.txt", "photos/training/a.png", "", "photos");
  place("training/label_2/a.txt", "photos/image_2/a.png", "training", "photos");
  place("training/label_2/a.txt", "photos/a.png", "", "photos");
}

TEST_F(Kitti, FoldersThatLinksLeadToAreSearched) {
  TempDir elsewhere;
  write_file(elsewhere / "first/label_2/deep/1.txt", kDog);
  write_file(elsewhere / "first/image_2/deep/1.png", grey_png(3, 4, 9));
  write_file(elsewhere / "more/2.txt", kDog);
  std::filesystem::create_directory_symlink(elsewhere / "first", dir_ / "linked");
  std::filesystem::create_directory_symlink(elsewhere / "more", elsewhere / "first/label_2/more");
  const auto source = open();
  EXPECT_THAT(paths(*source), ElementsAre("linked/image_2/deep/1.png", ""));
  EXPECT_EQ(source->origin(1).file, dir_ / "linked/label_2/more/2.txt");
}

TEST_F(Kitti, ALabelFolderThatLinksLeadToIsReadOnce) {
  write_file(dir_ / "training/label_2/1.txt", kDog);
  picture("training/image_2/1.png");
  picture("mini/image_2/1.png");
  std::filesystem::create_directory_symlink("../training/label_2", dir_ / "mini/label_2");
  EXPECT_THAT(paths(*open()), ElementsAre("training/image_2/1.png")) << "the folder that is no link";
  std::filesystem::rename(dir_ / "training", dir_ / "labels_of_both");
  TempDir elsewhere;
  std::filesystem::rename(dir_ / "labels_of_both/label_2", elsewhere / "labels");
  std::filesystem::remove(dir_ / "mini/label_2");
  for (const char* set : {"labels_of_both", "mini"})
    std::filesystem::create_directory_symlink(elsewhere / "labels", dir_ / (std::string(set) + "/label_2"));
  EXPECT_THAT(paths(*open()), ElementsAre("labels_of_both/image_2/1.png")) << "the first by name";
}

TEST_F(Kitti, SetsWithTheSameNamesAreToldApart) {
  for (const char* set : {"train", "val"}) {
    picture(std::string(set) + "/image_2/1.png");
    write_file(dir_ / (std::string(set) + "/label_2/1.txt"), kDog);
  }
  const auto source = open();
  EXPECT_THAT(paths(*source), ElementsAre("train/image_2/1.png", "val/image_2/1.png"));
  EXPECT_EQ(read(*source, 1).source_id, "val/1.png");
  for (const char* line : {"val/1", "val/image_2/1.png", "val/label_2/1.txt"}) {
    write_file(dir_ / "list.txt", std::string(line) + "\r\n");
    EXPECT_THAT(paths(*open("", dir_ / "list.txt")), ElementsAre("val/image_2/1.png")) << line;
  }
  // Pictures of one folder cannot be those of both.
  picture("photos/1.png");
  EXPECT_THAT(paths(*open("", "", dir_ / "photos")), ElementsAre("", ""));
}

TEST_F(Kitti, ASplitListsNamesAsTheBenchmarkDoes) {
  for (const char* name : {"000000", "000001", "000002"}) {
    picture("training/image_2/" + std::string(name) + ".png");
    write_file(dir_ / ("training/label_2/" + std::string(name) + ".txt"), name[5] == '1' ? kCar : kDog);
  }
  write_file(dir_ / "ImageSets/train.txt", "000002\n000000\n000009\n");
  const auto source = open("", dir_ / "ImageSets/train.txt");
  EXPECT_THAT(paths(*source), ElementsAre("training/image_2/000002.png", "training/image_2/000000.png"));
  EXPECT_EQ(source->classes().size(), 2u) << "of all data";
  EXPECT_THAT(problems_.lines(), ElementsAre(HasSubstr("1 name(s) in the split list without annotation: 000009")));
}

TEST_F(Kitti, APictureThatLiesHasTheSizeThatItIsSeenWith) {
  write_file(dir_ / "images/a.jpg", with_orientation(encode_jpeg(gradient_image(30, 40)), 6));
  write_file(dir_ / "labels/a.txt", kDog);
  const AnnotatedImage image = read(*open(), 0);
  EXPECT_EQ(image.height, 40);
  EXPECT_EQ(image.width, 30);
}

TEST_F(Kitti, TextOfOtherSystems) {
  const std::string windows = std::string("\xEF\xBB\xBF") + "dog 1.0 0 -1 1.5 2 30 20.25 -1 -1 -1 -1 -1 -1 -1\r\n";
  EXPECT_EQ(objects(windows).at(0).name, "dog");
  write_file(dir_ / "label_2/0.txt", std::string("\xFF\xFE"
                                                 "d\0",
                                                 4));
  AnnotatedImage image;
  const auto source = open();
  EXPECT_FALSE(source->read(0, image, problems_));
  EXPECT_THAT(source->classes(), IsEmpty());
  EXPECT_THAT(problems_.lines(), ElementsAre(AllOf(HasSubstr("1 picture(s) left out, their label files not being"),
                                                   HasSubstr("0.txt: is UTF-16"))));
}

TEST_F(Kitti, FoldersWithoutLabelsAreErrors) {
  EXPECT_THAT([&] { open(dir_ / "no"); }, ThrowsMessage<DataError>(HasSubstr("no: no such folder")));
  picture("image_2/0.png");
  EXPECT_THAT([&] { open(); }, ThrowsMessage<DataError>(HasSubstr("has no folder label_2 or labels")));
  std::filesystem::create_directory(dir_ / "label_2");
  EXPECT_THAT([&] { open(); }, ThrowsMessage<DataError>(HasSubstr("label_2: has no .txt files")));
}

}  // namespace
}  // namespace osprey::data
