// Records whose pictures have a label each, as those of ImageNet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/parse.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/example_index.h"
#include "osprey/data/record_check.h"
#include "osprey/data/record_file.h"
#include "support/example_record.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class PictureLabels : public ::testing::Test {
 protected:
  /// The only example of a file of this record, read by a reader that wants the label of the picture.
  Example read(const ExampleRecord& record) {
    RecordWriter writer(dir_ / "set.record");
    writer.write(record.bytes());
    writer.close();
    const auto config = config::parse<proto::InputReader>(
        "label_of_picture: true tf_record_input_reader { input_path: '" + (dir_ / "set.record") + "' }", "test");
    auto map = std::make_shared<config::LabelMap>();
    map->items = {{1, "cat", ""}, {2, "dog", ""}};
    const auto index = open_examples(config.node(), map);
    EXPECT_EQ(index->size(), 1);
    checked_ = RecordChecker(config.node(), 2, map).check(record.bytes(), index->origin(0));
    return build_example_decoder(config.node(), 2, map)->decode(index->read(0), index->origin(0), report_);
  }
  TempDir dir_;
  ReadReport report_;
  CheckedRecord checked_;  // what check_dataset sees
};

TEST_F(PictureLabels, BecomeOneObject) {
  const Example example = read(picture_record(4, 6).ints("image/class/label", {2}));
  EXPECT_THAT(example.classes, ElementsAre(1));
  EXPECT_THAT(example.boxes, ElementsAre(Box{0, 0, 1, 1}));
  EXPECT_EQ(example.image.sizes(), (std::vector<int64_t>{4, 6, 3}));
}

TEST_F(PictureLabels, MayBeTexts) {
  EXPECT_THAT(read(picture_record(4, 6).strings("image/class/text", {"cat"})).classes, ElementsAre(0));
}

TEST_F(PictureLabels, TakeThePlaceOfObjects) {
  const Example example = read(picture_record(4, 6)
                                   .box(0.1f, 0.1f, 0.5f, 0.5f, 1)
                                   .box(0.2f, 0.1f, 0.5f, 0.5f, 1)
                                   .floats("image/object/area", {3, 4})
                                   .ints("image/object/is_crowd", {1, 1})
                                   .ints("image/object/difficult", {1, 1})
                                   .ints("image/object/group_of", {1, 1})
                                   .ints("image/object/truncated", {1, 1})
                                   .floats("image/object/weight", {0, 0})
                                   .strings("image/object/class/text", {"cat", "cat"})
                                   .ints("image/class/label", {2}));
  EXPECT_THAT(example.classes, ElementsAre(1));
  EXPECT_THAT(example.boxes, ElementsAre(Box{0, 0, 1, 1}));
  EXPECT_THAT(example.weights, ElementsAre(1));
  EXPECT_THAT(example.area, IsEmpty());
  EXPECT_THAT(example.is_crowd, IsEmpty());
  EXPECT_THAT(example.difficult, IsEmpty());
  EXPECT_THAT(example.group_of, IsEmpty());
  EXPECT_THAT(checked_.problems, IsEmpty());
  ASSERT_TRUE(checked_.example.has_value());
  EXPECT_THAT(checked_.example->classes, ElementsAre(1));
}

TEST_F(PictureLabels, AreOneForEachPicture) {
  EXPECT_THAT([&] { read(picture_record(4, 6)); },
              ThrowsMessage<BadRecord>(
                  HasSubstr("image/class/label: is missing, and so is the text: label_of_picture wants one")));
  EXPECT_THAT(
      [&] {
        read(picture_record(4, 6).ints("image/class/label", {1, 2}));
      },
      ThrowsMessage<BadRecord>(HasSubstr("image/class/label: has several values")));
  EXPECT_THAT(
      [&] {
        read(picture_record(4, 6).strings("image/class/text", {"cat", "dog"}));
      },
      ThrowsMessage<BadRecord>(HasSubstr("image/class/text: has several values")));
  EXPECT_THAT([&] { read(picture_record(4, 6).ints("image/class/label", {3})); },
              ThrowsMessage<ConfigError>(HasSubstr("class id 3")));
}

}  // namespace
}  // namespace osprey::data
