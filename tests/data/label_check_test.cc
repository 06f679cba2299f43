#include "osprey/data/label_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "support/example_record.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

// A file of records with one box of each label.
RecordIndex records(const TempDir& dir, const std::vector<std::string>& bytes) {
  RecordWriter writer(dir / "a.record");
  for (const std::string& record : bytes) writer.write(record);
  writer.close();
  return RecordIndex({dir / "a.record"});
}

TEST(LabelCheck, CountsWhatAgrees) {
  TempDir dir;
  const auto map = config::parse_label_map("item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }", "map");
  ExampleRecord text;
  text.box(0, 0, 1, 1).strings("image/object/class/text", {"dog"});
  const RecordIndex index = records(dir, {ExampleRecord().box(0, 0, 1, 1, 1).box(0, 0, 1, 1, 2).bytes(), text.bytes(),
                                          "junk", ExampleRecord().bytes()});
  const LabelCensus census = check_labels(index, {.num_classes = 2, .label_map = &map});
  EXPECT_EQ(census.records, 3);
  EXPECT_THAT(census.objects_of_id, ElementsAre(Pair(1, 1), Pair(2, 2)));
  EXPECT_EQ(check_labels(index, {.label_map = &map, .seconds = 0}).records, 1);
}

TEST(LabelCheck, EveryDisagreementIsALineOfTheTableAndEndsWithUsageCode) {
  TempDir dir;
  const auto map = config::parse_label_map("item { id: 1 name: 'cat' } item { id: 3 name: 'dog' }", "map");
  ExampleRecord zero, text;
  zero.box(0, 0, 1, 1).ints("image/object/class/label", {0});
  text.box(0, 0, 1, 1).strings("image/object/class/text", {"cow"});
  const RecordIndex index =
      records(dir, {zero.bytes(), text.bytes(), ExampleRecord().box(0, 0, 1, 1, 2).box(0, 0, 1, 1, 3).bytes()});
  try {
    check_labels(index, {.reader = "train_input_reader", .num_classes = 2, .label_map = &map});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    const std::string file = dir / "a.record";
    EXPECT_EQ(std::string(error.what()),
              "train_input_reader: label map, num_classes (2) and records disagree; 3 of 3 records were looked at\n"
              "      id  label map                   records\n"
              "       0  -                                 1  <- ids begin at 1, as in " +
                  file +
                  ": record 0 (byte 0)\n"
                  "       1  cat                               0\n"
                  "       2  -                                 1  <- not in the label map, as in " +
                  file + ": record 2 (byte " + std::to_string(index.origin(2).offset) +
                  ")\n"
                  "       3  dog                               1  <- above num_classes, as in " +
                  file + ": record 2 (byte " + std::to_string(index.origin(2).offset) +
                  ")\n"
                  "       -  -                                 1  <- class text 'cow' without a label, as in " +
                  file + ": record 1 (byte " + std::to_string(index.origin(1).offset) + ")");
  }
}

}  // namespace
}  // namespace osprey::data
