#include "osprey/data/record_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/config/label_map.h"
#include "osprey/config/parse.h"
#include "support/example_record.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Effect = RecordProblem::Effect;

const RecordOrigin kOrigin{"train.record", 3, 99};

CheckedRecord check(const std::string& bytes, const std::string& reader = "") {
  const auto parsed = config::parse<proto::InputReader>(reader);
  const auto map = std::make_shared<config::LabelMap>(
      config::parse_label_map("item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }", "pets"));
  return RecordChecker(parsed.node(), 2, map).check(bytes, kOrigin);
}

CheckedRecord check(const ExampleRecord& record, const std::string& reader = "") {
  return check(record.bytes(), reader);
}

auto problem(const std::string& kind, Effect effect, int64_t box) {
  return AllOf(Field(&RecordProblem::kind, kind), Field(&RecordProblem::effect, effect),
               Field(&RecordProblem::box, box));
}

TEST(RecordChecker, SoundRecordHasNoProblem) {
  const CheckedRecord checked = check(picture_record(10, 20).box(.1f, .1f, .5f, .5f, 1));
  EXPECT_THAT(checked.problems, IsEmpty());
  ASSERT_TRUE(checked.example);
  EXPECT_EQ(checked.example->boxes.size(), 1);
  EXPECT_EQ(checked.picture, "17");
}

TEST(RecordChecker, EveryBoxIsNamedWithItsValuesAndFault) {
  const float nan = std::nanf("");
  auto record = picture_record(100, 100).strings("image/filename", {"a.jpg"});
  record.box(.1f, .1f, .5f, .5f, 1)
      .box(nan, .1f, .5f, .5f, 1)
      .box(.5f, .1f, .2f, .5f, 1)
      .box(.1f, .1f, .1f, .5f, 1)
      .box(1.2f, .1f, 1.5f, .5f, 1)
      .box(.1f, .1f, 1.3f, .5f, 2);
  const CheckedRecord checked = check(record);
  EXPECT_THAT(checked.problems, ElementsAre(problem("box is not finite", Effect::kBoxLeftOut, 1),
                                            problem("box is inverted", Effect::kBoxLeftOut, 2),
                                            problem("box is empty", Effect::kBoxLeftOut, 3),
                                            problem("box lies outside the image", Effect::kBoxLeftOut, 4),
                                            problem("box leaves the image", Effect::kNoted, 5)));
  EXPECT_EQ(checked.problems[1].values, (Box{.5f, .1f, .2f, .5f}));
  EXPECT_EQ(describe(checked.problems[1]),
            "train.record: record 3 (byte 99): a.jpg: box 2: is inverted: ymin 0.5 xmin 0.1 ymax 0.2 xmax 0.5");
  EXPECT_THAT(checked.example->classes, ElementsAre(0, 1));
}

TEST(RecordChecker, InvalidBoxesEndTheRunUnderFail) {
  const auto record = picture_record(100, 100).box(.5f, .1f, .2f, .5f, 1).box(.1f, .1f, 1.3f, .5f, 1);
  EXPECT_THAT(check(record, "invalid_box_policy: FAIL").problems,
              ElementsAre(problem("box is inverted", Effect::kEndsRun, 0),
                          problem("box leaves the image", Effect::kEndsRun, 1)));
}

TEST(RecordChecker, EveryBoxOfAnUnknownClassIsNamed) {
  auto record = picture_record(10, 20).box(.1f, .1f, .5f, .5f, 7).box(.1f, .1f, .5f, .5f, 1).box(.2f, .1f, .5f, .5f, 9);
  const CheckedRecord checked = check(record);
  EXPECT_THAT(checked.problems, ElementsAre(problem("unknown class", Effect::kEndsRun, 0),
                                            problem("unknown class", Effect::kEndsRun, 2)));
  EXPECT_THAT(checked.unknown_classes, ElementsAre("class id 7", "class id 9"));
  EXPECT_THAT(checked.example->classes, ElementsAre(0));

  const auto text = picture_record(10, 20).box(.1f, .1f, .5f, .5f).strings("image/object/class/text", {"bird"});
  EXPECT_THAT(check(text).unknown_classes, ElementsAre("class 'bird'"));
}

TEST(RecordChecker, UnusableRecordsHaveTheirCause) {
  const auto expect = [](const std::string& bytes, const std::string& kind, const std::string& reason) {
    const CheckedRecord checked = check(bytes);
    EXPECT_FALSE(checked.example);
    ASSERT_THAT(checked.problems, ElementsAre(problem(kind, Effect::kRecordLeftOut, -1)));
    EXPECT_THAT(checked.problems[0].reason, HasSubstr(reason));
    EXPECT_EQ(checked.problems[0].origin.record, 3);
  };
  auto box = picture_record(10, 20).box(.1f, .1f, .5f, .5f, 1);
  expect("no example", "not a tf.Example", "is not a tf.Example");
  expect(ExampleRecord(box).strings("image/encoded", {"no picture"}).bytes(), "picture cannot be decoded",
         "image/encoded");
  expect(ExampleRecord(box).floats("image/object/bbox/xmax", {.5f, .6f}).bytes(), "lists of different lengths",
         "2 values for 1 boxes");
  expect(ExampleRecord(box).ints("image/object/class/label", {1, 2, 1}).bytes(), "lists of different lengths",
         "3 values for 1 boxes");
  expect(picture_record(10, 20).box(3, 5, 9, 12, 1).bytes(), "pixels in place of fractions", "looks like pixels");
  expect(ExampleRecord(box).strings("image/object/class/label", {"1"}).bytes(), "record cannot be used",
         "expected integers");
}

TEST(RecordChecker, ARecordIsBadOnce) {
  auto box = picture_record(10, 20).box(.1f, .1f, .5f, .5f, 1);
  const CheckedRecord ymin = check(ExampleRecord(box).ints("image/object/bbox/ymin", {3}));
  EXPECT_THAT(ymin.problems, ElementsAre(problem("record cannot be used", Effect::kRecordLeftOut, -1)));
  EXPECT_THAT(ymin.problems[0].reason, HasSubstr("holds integers, expected floats"));
  const CheckedRecord name = check(ExampleRecord(box).ints("image/filename", {3}));
  EXPECT_THAT(name.problems, ElementsAre(problem("record cannot be used", Effect::kRecordLeftOut, -1)));
}

TEST(RecordChecker, UnknownClassesOfUnusableRecordsAreSeenAsACensusOfTheLabelsSeesThem) {
  const auto expect = [](const ExampleRecord& record) {
    const CheckedRecord checked = check(record);
    EXPECT_FALSE(checked.example);
    EXPECT_THAT(checked.unknown_classes, ElementsAre("class id 7"));
    EXPECT_THAT(checked.problems, ElementsAre(Field(&RecordProblem::effect, Effect::kRecordLeftOut),
                                              problem("unknown class", Effect::kEndsRun, 0)));
  };
  auto box = picture_record(10, 20).box(.1f, .1f, .5f, .5f, 7);
  expect(ExampleRecord(box).strings("image/encoded", {"no picture"}));
  expect(ExampleRecord(box).floats("image/object/bbox/xmax", {.5f, .6f}));
  expect(ExampleRecord(box).ints("image/object/bbox/ymin", {3}));
  expect(ExampleRecord(box).ints("image/filename", {3}));
}

TEST(RecordChecker, AReasonDoesNotBeginWithThePlace) {
  EXPECT_EQ(reason_of(DataError("train.record: record 3 (byte 99): cut short"), kOrigin), "cut short");
  EXPECT_EQ(reason_of(DataError("train.record: too large"), kOrigin), "too large");
  EXPECT_EQ(reason_of(DataError("other.record: too large"), kOrigin), "other.record: too large");
}

}  // namespace
}  // namespace osprey::data
