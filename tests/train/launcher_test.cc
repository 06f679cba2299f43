#include "osprey/train/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;

constexpr const char *kLauncherFolder = "OSPREY_LAUNCHER_TEST_FOLDER", *kLauncherRole = "OSPREY_LAUNCHER_TEST_ROLE";

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

/// How often this replica has been started, this time included.
int starts(const std::filesystem::path& folder, const std::string& rank) {
  const std::filesystem::path file = folder / ("starts-" + rank);
  const int count = std::filesystem::exists(file) ? std::stoi(osprey::testing::read_file(file)) + 1 : 1;
  write(file, std::to_string(count));
  return count;
}

// Run by the tests below in processes of their own, as replicas.
TEST(Launcher, DISABLED_Child) {
  const char *folder = std::getenv(kLauncherFolder), *role = std::getenv(kLauncherRole);
  if (folder == nullptr) return;
  const std::string rank = std::getenv("RANK"), size = std::getenv("WORLD_SIZE"), what = role;
  const int count = starts(folder, rank);
  write(std::filesystem::path(folder) / ("process-" + rank), std::to_string(::getpid()));
  if (what == "all well") std::exit(size == "3" && std::getenv("MASTER_PORT") != nullptr ? 0 : 9);
  if (what == "one is killed" && rank == "1") std::raise(SIGKILL);
  if (what == "one is killed once" && rank == "1" && count == 1) std::raise(SIGKILL);
  if (what == "one is killed once" && count == 2) std::exit(0);
  if (what == "bad config") std::exit(2);
  if (what == "wait") std::signal(SIGTERM, [](int) { std::_Exit(143); });
  std::this_thread::sleep_for(std::chrono::seconds(60));  // until it is killed
  std::exit(0);
}

LaunchOptions options(int64_t clones) {
  LaunchOptions result;
  result.arguments = {"launcher_test", "--gtest_filter=Launcher.DISABLED_Child", "--gtest_also_run_disabled_tests",
                      "--gtest_brief=1"};
  result.clones = clones;
  result.grace_seconds = 0.5;
  return result;
}

/// The exit code of the launcher, in a process of its own, which has one thread.
pid_t launch(const TempDir& folder, const char* role, const LaunchOptions& launch_options) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::setenv(kLauncherFolder, folder.path().c_str(), 1);
    ::setenv(kLauncherRole, role, 1);
    ::_exit(launch_replicas(launch_options));
  }
  return process;
}

int code_of(pid_t process) {
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// Whether a replica's process is there, and not only its remains.
bool runs(const TempDir& folder, int rank) {
  const std::filesystem::path file = folder / ("process-" + std::to_string(rank));
  if (!std::filesystem::exists(file)) return false;
  std::ifstream stat("/proc/" + osprey::testing::read_file(file) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}

void await(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(condition());
}

TEST(Launcher, GivesEachItsPlaceAndWaitsForAll) {
  const TempDir folder;
  EXPECT_EQ(code_of(launch(folder, "all well", options(3))), 0);
  for (const char* rank : {"0", "1", "2"})
    EXPECT_EQ(osprey::testing::read_file(folder / ("starts-" + std::string(rank))), "1");
}

TEST(Launcher, WaitsWhoeverStartedItIgnoresTheEndOfChildren) {
  const TempDir folder;
  const auto former = std::signal(SIGCHLD, SIG_IGN);
  const pid_t launcher = launch(folder, "one is killed", options(2));
  std::signal(SIGCHLD, former);
  EXPECT_EQ(code_of(launcher), static_cast<int>(ExitCode::kData));
}

TEST(Launcher, OneThatIsKilledEndsAll) {
  const TempDir folder;
  EXPECT_EQ(code_of(launch(folder, "one is killed", options(2))), static_cast<int>(ExitCode::kData));
  EXPECT_FALSE(runs(folder, 0));
}

TEST(Launcher, StartsAgainAfterALoss) {
  const TempDir folder;
  LaunchOptions again = options(2);
  again.max_restarts = 1;
  EXPECT_EQ(code_of(launch(folder, "one is killed once", again)), 0);
  EXPECT_EQ(osprey::testing::read_file(folder / "starts-0"), "2");
}

TEST(Launcher, DoesNotStartAgainWhatIsBadInItself) {
  const TempDir folder;
  LaunchOptions again = options(2);
  again.max_restarts = 3;
  EXPECT_EQ(code_of(launch(folder, "bad config", again)), 2);
  EXPECT_EQ(osprey::testing::read_file(folder / "starts-0"), "1");
}

TEST(Launcher, PassesSignalsOn) {
  const TempDir folder;
  const pid_t launcher = launch(folder, "wait", options(2));
  await([&] { return runs(folder, 0) && runs(folder, 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(code_of(launcher), 143);
}

TEST(Launcher, LeavesNoOrphans) {
  const TempDir folder;
  const pid_t launcher = launch(folder, "wait", options(2));
  await([&] { return runs(folder, 0) && runs(folder, 1); });
  ::kill(launcher, SIGKILL);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  await([&] { return !runs(folder, 0) && !runs(folder, 1); });
}

TEST(Launcher, RefusesNumbersThatMakeNoSense) {
  using ::testing::HasSubstr;
  LaunchOptions several = options(2);
  several.machines = 2;
  EXPECT_THAT([&] { launch_replicas(several); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("--master HOST:PORT")));
  several.machine = 2;
  EXPECT_THAT([&] { launch_replicas(several); }, ::testing::ThrowsMessage<ConfigError>(HasSubstr("machine 2 of 2")));
}

}  // namespace
}  // namespace osprey::train
