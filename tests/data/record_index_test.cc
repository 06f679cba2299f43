#include "osprey/data/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using ::osprey::testing::read_file;
using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void write_records(const std::string& path, const std::vector<std::string>& records,
                   Compression compression = Compression::kNone) {
  RecordWriter writer(path, compression);
  for (const std::string& record : records) writer.write(record);
  writer.close();
}

TEST(RecordIndex, ReadsAnyRecordOfAnyShard) {
  TempDir dir;
  write_records(dir / "a.record-00000-of-00003", {"a0", "a1"});
  write_records(dir / "a.record-00001-of-00003", {}, Compression::kGzip);
  write_records(dir / "a.record-00002-of-00003", {"c0", "", "c2"}, Compression::kZlib);
  for (const char* pattern :
       {"a.record-????[?0-9]-of-00003", "a.record*", "a.record@3", "a.record-0000[0-2]-of-00003"}) {
    RecordIndex index({dir / pattern});
    ASSERT_EQ(index.size(), 5) << pattern;
    EXPECT_EQ(index.files().size(), 3u);
    EXPECT_EQ(index.total_bytes(), 8);
    EXPECT_EQ(index.read(4), "c2");
    EXPECT_EQ(index.read(0), "a0");
    EXPECT_EQ(index.read(3), "");
    EXPECT_EQ(index.origin(1).describe(), dir / "a.record-00000-of-00003: record 1 (byte 18)");
    EXPECT_EQ(index.origin(4).record, 2);
    EXPECT_THROW(index.read(5), c10::Error);
    EXPECT_THROW(index.read(-1), c10::Error);
  }
}

TEST(RecordIndex, AnExistingNameIsNotTakenForAPattern) {
  TempDir dir;
  write_records(dir / "data[1].record", {"x"});
  EXPECT_EQ(RecordIndex({dir / "data[1].record"}).size(), 1);
}

TEST(RecordIndex, RefusesFilesWithoutExamples) {
  TempDir dir;
  write_file(dir / "a", "");
  write_file(dir / "b", "");
  EXPECT_THAT(
      [&] { RecordIndex({dir / "*"}, "train_input_reader"); },
      ThrowsMessage<DataError>(AllOf(HasSubstr("train_input_reader: 0 examples in 2 files"), HasSubstr(dir / "a"))));
}

TEST(RecordIndex, EveryTruncationIsNoticedWhenOpening) {
  TempDir dir;
  const std::string good = record_frame("hello") + record_frame("world");
  for (size_t size = 1; size < good.size(); ++size) {
    if (size == 21) continue;
    write_file(dir / "a", std::string_view(good).substr(0, size));
    EXPECT_THAT([&] { RecordIndex({dir / "a"}); },
                ThrowsMessage<DataError>(
                    AllOf(HasSubstr(size > 21 ? "record 1 (byte 21)" : "record 0 (byte 0)"), HasSubstr("cut short"))))
        << size;
  }
}

TEST(RecordIndex, EveryFlippedBitIsNoticedWhenOpeningOrReading) {
  TempDir dir;
  const std::string good = record_frame("hello") + record_frame("world");
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 4);
    write_file(dir / "a", bad);
    EXPECT_THAT(
        [&] {
          RecordIndex index({dir / "a"});
          index.read(0);
          index.read(1);
        },
        ThrowsMessage<DataError>(HasSubstr(byte < 21 ? "record 0 (byte 0)" : "record 1 (byte 21)")))
        << byte;
  }
}

TEST(RecordIndex, AFileThatShrinksWhileItIsReadIsNamed) {
  TempDir dir;
  write_file(dir / "a", record_frame("hello") + record_frame("world"));
  RecordIndex index({dir / "a"});
  std::filesystem::resize_file(dir / "a", 30);
  EXPECT_EQ(index.read(0), "hello");
  EXPECT_THAT([&] { index.read(1); }, ThrowsMessage<DataError>(HasSubstr("record 1 (byte 21)")));
}

TEST(RecordIndex, ManyThreadsMayReadAndManyShardsMayBeOpen) {
  TempDir dir;
  for (int shard = 0; shard < 300; ++shard)
    write_records(dir / ("s" + std::to_string(1000 + shard)),
                  {std::to_string(shard) + "a", std::to_string(shard) + "b"});
  RecordIndex index({dir / "s*"});
  ASSERT_EQ(index.size(), 600);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < index.size(); ++i)
        if (index.read(i) != std::to_string(i / 2) + (i % 2 ? "b" : "a")) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace osprey::data
