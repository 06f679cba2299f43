#include "osprey/data/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::vector<std::string> read_all(const std::string& path) {
  RecordReader reader(path);
  std::vector<std::string> records;
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

void write_all(const std::string& path, const std::vector<std::string>& records,
               Compression compression = Compression::kNone) {
  RecordWriter writer(path, compression);
  for (const std::string& record : records) writer.write(record);
  writer.close();
}

TEST(RecordFile, WritesTheFramesOfTensorFlow) {
  // Length 3, its sum, the bytes, their sum; sums from tensorboard.compat's masked_crc32c.
  const std::string expected(
      "\x03\0\0\0\0\0\0\0"
      "\xb0\x99\x49\x0e"
      "abc"
      "\x6e\x57\xf1\x21",
      19);
  EXPECT_EQ(record_frame("abc"), expected);
}

TEST(RecordFile, GivesBackWhatWasWrittenInEveryPacking) {
  TempDir dir;
  const std::vector<std::string> records{"first", "", std::string(300000, 'x'), std::string(1, '\0'), "last"};
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::string path = dir / "a.record";
    write_all(path, records, compression);
    EXPECT_EQ(compression_of(path), compression);
    EXPECT_EQ(read_all(path), records);
  }
}

TEST(RecordFile, ReadsGzipFilesThatWereJoined) {
  TempDir dir;
  write_all(dir / "a", {"one"}, Compression::kGzip);
  write_all(dir / "b", {"two"}, Compression::kGzip);
  write_file(dir / "c", read_file(dir / "a") + read_file(dir / "b"));
  EXPECT_THAT(read_all(dir / "c"), ElementsAre("one", "two"));
}

TEST(RecordFile, AnEmptyFileHasNoRecords) {
  TempDir dir;
  write_file(dir / "a", "");
  EXPECT_THAT(read_all(dir / "a"), ElementsAre());
}

TEST(RecordFile, EveryFlippedBitIsNoticedAndNamed) {
  TempDir dir;
  const std::string good = record_frame("hello") + record_frame("world");
  for (size_t byte = 0; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; bit += 3) {
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      write_file(dir / "a.record", bad);
      const bool second = byte >= good.size() / 2;
      EXPECT_THAT([&] { read_all(dir / "a.record"); },
                  ThrowsMessage<DataError>(
                      AllOf(HasSubstr("a.record"), HasSubstr(second ? "record 1 (byte 21)" : "record 0 (byte 0)"))))
          << "byte " << byte << " bit " << bit;
    }
  }
}

TEST(RecordFile, EveryTruncationIsNoticedAndNamed) {
  TempDir dir;
  const std::string good = record_frame("hello") + record_frame("world");
  for (size_t size = 0; size <= good.size(); ++size) {
    write_file(dir / "a.record", std::string_view(good).substr(0, size));
    if (size % 21 == 0) {
      EXPECT_EQ(read_all(dir / "a.record").size(), size / 21);
      continue;
    }
    EXPECT_THAT([&] { read_all(dir / "a.record"); },
                ThrowsMessage<DataError>(
                    AllOf(HasSubstr("a.record"), HasSubstr(size > 21 ? "byte 21" : "byte 0"), HasSubstr("cut short"))))
        << size;
  }
}

TEST(RecordFile, PackedFilesThatAreCutOrDamagedAreNamed) {
  TempDir dir;
  std::string noise;
  for (uint32_t i = 0, state = 1; i < 5000; ++i)
    noise.push_back(static_cast<char>((state = state * 1664525u + 1013904223u) >> 24));
  for (Compression compression : {Compression::kGzip, Compression::kZlib}) {
    write_all(dir / "a.record", {noise, noise}, compression);
    const std::string good = read_file(dir / "a.record");
    for (size_t size : {size_t{2}, size_t{20}, good.size() / 2, good.size() - 1}) {
      write_file(dir / "a.record", std::string_view(good).substr(0, size));
      EXPECT_THAT([&] { read_all(dir / "a.record"); },
                  ThrowsMessage<DataError>(AllOf(HasSubstr("a.record"), HasSubstr("byte"))))
          << size;
    }
    for (size_t byte = 2; byte < good.size(); byte += 97) {
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
      write_file(dir / "a.record", bad);
      try {  // a few bytes of a gzip head mean nothing
        EXPECT_EQ(read_all(dir / "a.record").size(), 2u);
        EXPECT_LT(byte, 10u);
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("a.record"), HasSubstr("byte")));
      }
    }
  }
}

TEST(RecordFile, AFileOfAnotherKindIsRefused) {
  TempDir dir;
  write_file(dir / "a.record", "This is a text that somebody named a record file.");
  EXPECT_THAT([&] { read_all(dir / "a.record"); }, ThrowsMessage<DataError>(HasSubstr("not a TFRecord file")));
  EXPECT_THAT([&] { RecordReader(dir.path().string()); }, ThrowsMessage<DataError>(HasSubstr("is a directory")));
  EXPECT_THAT([&] { RecordReader(dir / "missing"); }, ThrowsMessage<DataError>(HasSubstr("No such file")));
}

TEST(RecordFile, AFullDiskIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_THAT(
      [] {
        RecordWriter writer("/dev/full");
        writer.write(std::string(1 << 16, 'x'));
        writer.close();
      },
      ThrowsMessage<DataError>(HasSubstr("/dev/full: cannot write")));
  EXPECT_THROW(RecordWriter("/no/such/folder/a.record"), DataError);
}

}  // namespace
}  // namespace osprey::data
