#include "osprey/data/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/data/create_records.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/record_index.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

class Folders : public ::testing::Test {
 protected:
  Folders() {
    for (const char* name : {"set/dog/b.png", "set/dog/more/a.PNG", "set/cat/a.png"})
      write_file(dir_ / name, grey_png(30, 40, 9));
    write_file(dir_ / "set/notes/readme.txt", "of no class");
  }
  std::vector<std::string> names(const AnnotationSource& source) {
    std::vector<std::string> result;
    for (int64_t i = 0; i < source.size(); ++i) {
      AnnotatedImage image;
      EXPECT_TRUE(source.read(i, image, problems_));
      result.push_back(image.file_name);
    }
    return result;
  }
  CreateRecordsOptions to_records() const {
    CreateRecordsOptions options;
    options.format = AnnotationFormat::kFolders;
    options.input = dir_ / "set";
    options.label_map = dir_ / "map.pbtxt";
    options.output = dir_ / "set.record";
    return options;
  }

  TempDir dir_;
  Problems problems_;
};

TEST_F(Folders, AreClassesAndPicturesOneObjectEach) {
  const auto source = open_folders({dir_ / "set", ""}, problems_);
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "cat"), Pair(2, "dog")));
  EXPECT_THAT(names(*source), ElementsAre("cat/a.png", "dog/b.png", "dog/more/a.PNG"));
  AnnotatedImage image;
  ASSERT_TRUE(source->read(2, image, problems_));
  EXPECT_EQ(image.source_id, "dog/more/a.PNG") << "names repeat among classes, ids must not";
  ASSERT_EQ(image.objects.size(), 1u);
  EXPECT_EQ(image.objects[0].name, "dog");
  EXPECT_EQ(image.objects[0].box_px, (Box{0, 0, 30, 40}));
  EXPECT_EQ(source->origin(2).file, dir_ / "set/dog/more/a.PNG");
  EXPECT_THAT(problems_.lines(), ::testing::IsEmpty());
}

TEST_F(Folders, TakeThePicturesOfASplit) {
  write_file(dir_ / "val.txt", "dog/b.png\ncat/a\n");
  const auto source = open_folders({dir_ / "set", dir_ / "val.txt"}, problems_);
  EXPECT_THAT(names(*source), ElementsAre("dog/b.png", "cat/a.png"));
  EXPECT_EQ(source->classes().size(), 2u);
}

TEST_F(Folders, AreTheSameHoweverTheirPathIsWritten) {
  for (const char* path : {"set/", "./set", "set/../set", "set/dog/..", ".//set//"}) {
    const auto source = open_folders({dir_ / path, ""}, problems_);
    EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "cat"), Pair(2, "dog"))) << path;
    EXPECT_THAT(names(*source), ElementsAre("cat/a.png", "dog/b.png", "dog/more/a.PNG")) << path;
  }
}

TEST_F(Folders, CountPicturesOfNoClass) {
  write_file(dir_ / "set/stray.png", grey_png(30, 40, 9));
  for (const char* hidden : {"set/.thumbnails/a.png", "set/dog/.thumbnails/a.png", "set/dog/._b.png"})
    write_file(dir_ / hidden, grey_png(30, 40, 9));
  EXPECT_EQ(open_folders({dir_ / "set", ""}, problems_)->size(), 3);
  EXPECT_THAT(problems_.lines(),
              UnorderedElementsAre("1 picture(s) left out, lying in no folder of a class: " + (dir_ / "set/stray.png"),
                                   AllOf(HasSubstr("3 picture(s) left out, being hidden"), HasSubstr("dog/._b.png"))));
}

TEST_F(Folders, ThatAreNoneAreNamed) {
  EXPECT_THAT(
      [&] {
        open_folders({dir_ / "none", ""}, problems_);
      },
      ThrowsMessage<DataError>(HasSubstr("none: no such folder")));
  EXPECT_THAT(
      [&] {
        open_folders({dir_ / "set/cat", ""}, problems_);
      },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr("has no folders with pictures, one for each class"), HasSubstr("a.png"))));
  EXPECT_THAT(
      [&] {
        open_annotations({.format = AnnotationFormat::kFolders, .input = dir_ / "set", .image_dir = "x"}, problems_);
      },
      ThrowsMessage<ConfigError>(HasSubstr("image_dir does not go with folders of classes")));
}

TEST_F(Folders, AreNotCutIntoTiles) {
  CreateRecordsOptions options = to_records();
  options.tiles.side_px = 16;
  EXPECT_THAT([&] { create_records(options); },
              ThrowsMessage<ConfigError>(HasSubstr("--tile_size does not go with --format folders")));
}

TEST_F(Folders, BecomeRecords) {
  const CreateRecordsOptions options = to_records();
  const CreateRecordsResult result = create_records(options);
  EXPECT_EQ(result.num_images, 3);
  EXPECT_THAT(result.objects_of_class, ElementsAre(Pair("cat", 1), Pair("dog", 2)));
  const RecordIndex records({options.output}, "test");
  ReadReport report;
  const Example example =
      ExampleDecoder(DecoderOptions{.num_classes = 2}, nullptr).decode(records.read(1), records.origin(1), report);
  EXPECT_THAT(example.classes, ElementsAre(1));
  EXPECT_THAT(example.boxes, ElementsAre(Box{0, 0, 1, 1}));
}

}  // namespace
}  // namespace osprey::data
