#include "osprey/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::checkpoint {
namespace {

using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Checkpoint small() {
  Checkpoint content;
  content.tensors["model/a"] = at::arange(6, at::kFloat).reshape({2, 3});
  content.tensors["model/b"] = at::arange(5, at::kLong);
  content.tensors["model/empty"] = at::empty({0, 4});
  content.tensors["model/flag"] = at::arange(2).to(at::kBool);
  content.tensors["model/scalar"] = at::scalar_tensor(2.5, at::kDouble);
  content.tensors["model/transposed"] = at::arange(12, at::kFloat).reshape({3, 4}).t();
  content.attributes = {{"step", "7"}, {"text", "a \"quoted\" line"}};
  return content;
}

void overwrite(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TempDir folder;
  const Checkpoint content = small();
  write(folder / "c.osprey", content);
  const Checkpoint back = read(folder / "c.osprey");
  EXPECT_EQ(back.attributes, content.attributes);
  EXPECT_EQ(back.number("step", 0), 7);
  EXPECT_EQ(back.number("absent", 3), 3);
  ASSERT_EQ(back.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    EXPECT_EQ(back.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(back.tensors.at(name), tensor)) << name;
  }
}

TEST(Checkpoint, EqualStatesGiveEqualBytesAndLeaveNoTemporaryFile) {
  const TempDir folder;
  write(folder / "a.osprey", small());
  Checkpoint copy = small();
  for (auto& [name, tensor] : copy.tensors) tensor = tensor.clone();
  write(folder / "b.osprey", copy);
  EXPECT_EQ(osprey::testing::read_file(folder / "a.osprey"), osprey::testing::read_file(folder / "b.osprey"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.osprey.tmp"));
}

TEST(Checkpoint, EveryFlippedBitIsFound) {
  const TempDir folder;
  const std::filesystem::path file = folder / "c.osprey";
  write(file, small());
  const std::string good = osprey::testing::read_file(file);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    overwrite(file, bad);
    EXPECT_THAT([&] { read(file); }, ThrowsMessage<CheckpointError>(HasSubstr(file.string()))) << "byte " << i;
  }
}

TEST(Checkpoint, EveryTruncationIsFound) {
  const TempDir folder;
  const std::filesystem::path file = folder / "c.osprey";
  write(file, small());
  const std::string good = osprey::testing::read_file(file);
  for (size_t size = 0; size < good.size(); ++size) {
    overwrite(file, good.substr(0, size));
    EXPECT_THROW(read(file), CheckpointError) << size << " bytes";
  }
  overwrite(file, good + "x");
  EXPECT_THROW(read(file), CheckpointError);
}

TEST(Checkpoint, ADamagedTensorIsNamedWithBothChecksums) {
  const TempDir folder;
  const std::filesystem::path file = folder / "c.osprey";
  Checkpoint content;
  content.tensors["model/first"] = at::zeros({16});
  content.tensors["model/second"] = at::full({16}, 1.5);
  write(file, content);
  std::string bytes = osprey::testing::read_file(file);
  const float value = 1.5;
  const size_t place = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 1;
  overwrite(file, bytes);
  EXPECT_THAT([&] { read(file); },
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr("tensor model/second"), HasSubstr("expected checksum"), HasSubstr("found"))));
}

TEST(Checkpoint, SaysWhatIsNotACheckpoint) {
  const TempDir folder;
  overwrite(folder / "c.osprey", "PK\x03\x04 something else entirely, long enough to look at");
  EXPECT_THAT([&] { read(folder / "c.osprey"); },
              ThrowsMessage<CheckpointError>(HasSubstr("is not a checkpoint of Osprey")));
  EXPECT_THAT([&] { read(folder / "absent.osprey"); }, ThrowsMessage<CheckpointError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { read(folder.path()); }, ThrowsMessage<CheckpointError>(HasSubstr("Is a directory")));
}

TEST(Checkpoint, AFullDiskLeavesTheFormerFileAndNoRubbish) {
  const TempDir folder;
  const std::filesystem::path file = folder / "c.osprey";
  write(file, small());
  const std::string before = osprey::testing::read_file(file);
  Checkpoint large;
  large.tensors["model/large"] = at::zeros({1 << 16});
  // A limit on the size of files stands for the full disk: writing fails half-way.
  const rlimit limit = {4096, RLIM_INFINITY};
  rlimit former;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit lowered = former;
  lowered.rlim_cur = limit.rlim_cur;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lowered), 0);
  std::string message;
  ExitCode code = ExitCode::kDone;
  try {
    write(file, large);
  } catch (const DataError& error) {
    message = error.what();
    code = error.exit_code();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_THAT(message, AllOf(HasSubstr("c.osprey"), HasSubstr("cannot be written")));
  EXPECT_EQ(code, ExitCode::kData);
  EXPECT_EQ(osprey::testing::read_file(file), before);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".tmp"));
}

}  // namespace
}  // namespace osprey::checkpoint
