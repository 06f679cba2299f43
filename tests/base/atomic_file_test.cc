#include "osprey/base/atomic_file.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey {
namespace {

using osprey::testing::read_file;
using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The names in a folder, so that a temporary file that stays is seen.
std::vector<std::string> names(const TempDir& folder) {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    result.push_back(entry.path().filename().string());
  return result;
}

TEST(AtomicFile, IsThereOnlyWhenItIsWhole) {
  for (const auto temporary : {AtomicFile::Temporary::kOne, AtomicFile::Temporary::kPerProcess}) {
    const TempDir folder;
    write_whole(folder / "a.txt", "before", temporary);
    AtomicFile file(folder / "a.txt", temporary);
    file.append("aft");
    file.append("er");
    EXPECT_EQ(read_file(folder / "a.txt"), "before");
    file.commit();
    EXPECT_EQ(read_file(folder / "a.txt"), "after");
    EXPECT_THAT(names(folder), ::testing::ElementsAre("a.txt"));
  }
}

TEST(AtomicFile, LeavesNothingWhereItIsNotCompleted) {
  const TempDir folder;
  { AtomicFile(folder / "a.txt").append("half"); }
  EXPECT_THAT(names(folder), ::testing::IsEmpty());
}

TEST(AtomicFile, WhatAKilledProcessLeftIsOverwritten) {
  const TempDir folder;
  osprey::testing::write_file(folder / "a.txt.tmp", "longer than what comes now");
  write_whole(folder / "a.txt", "short");
  EXPECT_EQ(read_file(folder / "a.txt"), "short");
  EXPECT_THAT(names(folder), ::testing::ElementsAre("a.txt"));
}

TEST(AtomicFile, FailsWithTheFileAndTheReasonOfTheSystem) {
  const TempDir folder;
  EXPECT_THAT([&] { write_whole(folder / "gone/a.txt", ""); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("gone/a.txt"), HasSubstr("No such file"))));
  std::filesystem::create_directories(folder / "b/c");
  EXPECT_THAT([&] { write_whole(folder / "b", ""); }, ThrowsMessage<DataError>(HasSubstr("cannot be put in place")));
  EXPECT_THAT(names(folder), ::testing::ElementsAre("b"));
}

}  // namespace
}  // namespace osprey
