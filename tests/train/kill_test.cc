#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "osprey/train/run_directory.h"
#include "osprey/train/trainer.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;
using osprey::testing::TempDir;
using osprey::testing::ToyRun;

constexpr int64_t kSteps = 60;
constexpr const char* kFolder = "OSPREY_KILL_TEST_FOLDER";

/// Slows the steps down, so that a kill meets every part of the loop.
class Slow final : public Hook {
 public:
  void after_step(const StepEvent&) override { std::this_thread::sleep_for(std::chrono::milliseconds(4)); }
};

/// What a training program does: take the folder, resume, run to the end.
void train_in(const std::filesystem::path& folder) {
  const RunDirectory directory(folder);
  ToyRun toy({.dropout = 0.3});
  const auto source = make_toy_source(4);
  if (const auto newest = checkpoint::latest(folder))
    restore(toy.state, checkpoint::read(newest->file), newest->file.string());
  source->seek(toy.state.data_position);
  checkpoint::Directory checkpoints(folder, {.keep_last = 3});
  Slow slow;
  TrainerParts parts;
  parts.state = &toy.state;
  parts.source = source.get();
  parts.gradients = toy.gradients.get();
  parts.checkpoints = &checkpoints;
  parts.hooks = {&slow};
  run(parts, {.num_steps = kSteps, .checkpoint_every_n = 3});
}

// Run by the test below in a process of its own.
TEST(KilledRun, DISABLED_Child) {
  if (const char* folder = std::getenv(kFolder)) train_in(folder);
}

pid_t start_child(const std::filesystem::path& folder) {
  ::setenv(kFolder, folder.c_str(), 1);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const char* arguments[] = {program.c_str(), "--gtest_filter=KilledRun.DISABLED_Child",
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr};
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  return child;
}

int64_t newest_step(const std::filesystem::path& folder) {
  const auto newest = checkpoint::latest(folder);
  return newest ? newest->step : -1;
}

TEST(KilledRun, EndsWithTheSameWeightsBitForBit) {
  const TempDir alone, killed;
  train_in(alone.path());

  int kills = 0;
  for (const int delay_ms : {0, 3, 7, 12, 1, 19}) {
    const int64_t before = newest_step(killed.path());
    if (before >= kSteps - 6) break;
    const pid_t child = start_child(killed.path());
    for (int i = 0; i < 10000 && newest_step(killed.path()) <= before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) ++kills;
  }
  EXPECT_GE(kills, 2);
  EXPECT_LT(newest_step(killed.path()), kSteps) << "the run was never killed early enough to have something left to do";

  const pid_t child = start_child(killed.path());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::string name = "ckpt-" + std::to_string(kSteps) + checkpoint::kExtension;
  EXPECT_EQ(osprey::testing::read_file(alone / name), osprey::testing::read_file(killed / name));
}

}  // namespace
}  // namespace osprey::train
