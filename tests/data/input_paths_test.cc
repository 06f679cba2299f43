#include "osprey/data/input_paths.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {

using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(InputPaths, AFileNamedTwiceIsReadOnceAndPathsKeepTheirOrder) {
  TempDir dir;
  write_file(dir / "b", "1");
  write_file(dir / "a", "2");
  EXPECT_THAT(expand_input_paths({dir / "b", dir / "*"}, "reader"), ElementsAre(dir / "b", dir / "a"));
}

TEST(InputPaths, SaysWhichPathsMatchNothing) {
  TempDir dir;
  write_file(dir / "a", "1");
  try {
    expand_input_paths({dir / "a", dir / "x*", dir / "y"}, "train_input_reader");
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kData);
    EXPECT_EQ(error.what(),
              "train_input_reader: 0 files match '" + dir / "x*'\ntrain_input_reader: 0 files match '" + dir / "y'");
  }
  EXPECT_THAT([&] { expand_input_paths({}, "eval_input_reader[0]"); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("eval_input_reader[0]"), HasSubstr("0 files match"))));
  EXPECT_THAT([&] { expand_input_paths({dir.path().string()}, "reader"); },
              ThrowsMessage<DataError>(HasSubstr("is a directory")));
  EXPECT_THAT([&] { expand_input_paths({"PATH_TO_BE_CONFIGURED/train.record"}, "reader"); },
              ThrowsMessage<DataError>(HasSubstr("placeholder")));
  EXPECT_THAT([&] { expand_input_paths({dir / "a@2"}, "reader"); },
              ThrowsMessage<DataError>(HasSubstr("a-00000-of-00002 is missing")));
}

TEST(InputPaths, ShardsThatAreNotReadAreSaid) {
  TempDir dir;
  for (const char* name : {"a-00000-of-00003", "a-00001-of-00003", "a-00002-of-00003", "b-00000-of-00002", "c"})
    write_file(dir / name, "");
  EXPECT_THAT(unread_shards({dir / "a-00001-of-00003", dir / "c"}),
              AllOf(HasSubstr("1 of the 3 shards"), HasSubstr("?-of-00003' are all")));
  for (const char* name : {"d-00000-of-00002.tfrecord", "d-00001-of-00002.tfrecord"}) write_file(dir / name, "");
  EXPECT_THAT(unread_shards({dir / "d-00000-of-00002.tfrecord"}), HasSubstr("1 of the 2 shards"));
  EXPECT_EQ(unread_shards({dir / "d-00000-of-00002.tfrecord", dir / "d-00001-of-00002.tfrecord", dir / "c"}), "");
}

TEST(InputPaths, ShardsThatAreNotThereAreSaid) {
  TempDir dir;
  for (const char* name :
       {"x.record-00000-of-00004", "x.record-00002-of-00004", "[1]-00000-of-00002", "y-00000-of-00001"})
    write_file(dir / name, "");
  EXPECT_EQ(unread_shards(expand_input_paths({dir / "x.record-*"}, "reader")),
            "2 of the 4 shards '" + dir / "x.record-" + std::string(5, '?') +
                "-of-00004' are not there, the first of them " + dir / "x.record-00001-of-00004");
  EXPECT_THAT(unread_shards({dir / "[1]-00000-of-00002"}),
              AllOf(HasSubstr("1 of the 2 shards"), HasSubstr("is not there"), HasSubstr("[1]-00001-of-00002")));
  EXPECT_THAT(unread_shards({dir / "x.record-00002-of-00004"}),
              AllOf(HasSubstr("1 of the 2 shards that are there are read"), HasSubstr("2 of the 4 shards")));
  EXPECT_EQ(unread_shards({dir / "y-00000-of-00001"}), "");
}

TEST(InputPaths, ShardsMayBeCountedFromOne) {
  TempDir dir;
  for (const char* name : {"x-00001-of-00003", "x-00002-of-00003", "x-00003-of-00003", "y-00001-of-00002"})
    write_file(dir / name, "");
  EXPECT_EQ(unread_shards(expand_input_paths({dir / "x-*"}, "reader")), "");
  EXPECT_EQ(unread_shards({dir / "x-00001-of-00003", dir / "x-00002-of-00003"}),
            "2 of the 3 shards that are there are read; '" + dir / "x-" + std::string(5, '?') + "-of-00003' are all");
  EXPECT_THAT(unread_shards({dir / "y-00001-of-00002"}), HasSubstr("y-00000-of-00002"));
}

TEST(InputPaths, ShardsMayLieInSeveralFolders) {
  TempDir dir;
  const std::vector<std::string> spread{dir / "a/x-00000-of-00003", dir / "b/x-00001-of-00003",
                                        dir / "c/x-00002-of-00003"};
  for (const std::string& file : spread) write_file(file, "");
  EXPECT_EQ(unread_shards(spread), "");
  EXPECT_THAT(unread_shards({spread[0], spread[1]}),
              AllOf(HasSubstr("1 of the 3 shards"), HasSubstr("is not there"), HasSubstr("x-00002-of-00003")));
  write_file(dir / "a/x-00002-of-00003", "");
  EXPECT_EQ(unread_shards({spread[0], spread[1], spread[2], dir / "a/x-00002-of-00003"}), "");
  EXPECT_THAT(unread_shards(spread), HasSubstr("2 of the 3 shards that are there are read"));
}

}  // namespace
}  // namespace osprey::data
