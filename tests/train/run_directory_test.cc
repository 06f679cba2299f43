#include "osprey/train/run_directory.h"

#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <thread>

#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/train/log_record.h"
#include "osprey/train/signals.h"
#include "osprey/train/watchdog.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RunDirectory, IsHeldByOneRunAtATime) {
  const TempDir folder;
  const std::filesystem::path model_dir = folder / "a/b";
  {
    const RunDirectory first(model_dir);
    EXPECT_THAT([&] { RunDirectory second(model_dir); },
                ThrowsMessage<DataError>(AllOf(HasSubstr(model_dir.string()), HasSubstr("held by another training"),
                                               HasSubstr("process " + std::to_string(::getpid())))));
  }
  EXPECT_NO_THROW(RunDirectory again(model_dir));
}

TEST(RunDirectory, SaysWhyItCannotBeUsed) {
  const TempDir folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT([&] { RunDirectory run(folder / "file"); }, ThrowsMessage<DataError>(HasSubstr("cannot be made")));
  EXPECT_THAT([&] { RunDirectory run(folder / "file/below"); }, ThrowsMessage<DataError>(HasSubstr("Not a directory")));
  EXPECT_THAT([&] { RunDirectory run("/proc/osprey"); }, ThrowsMessage<DataError>(HasSubstr("/proc/osprey")));
  EXPECT_THAT([&] { RunDirectory run(folder / "small", int64_t{1} << 60); },
              ThrowsMessage<DataError>(HasSubstr("the disk is full")));
}

/// From here on this thread gets no lock, as on a network disk without locks. Whether the system lets that be.
bool refuse_locks() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(RunDirectory, ADiskWithoutLocksIsNotAnotherTraining) {
  const TempDir folder;
  bool refused = false;
  std::string said;
  std::thread([&] {
    refused = refuse_locks();
    try {
      RunDirectory run(folder.path());
    } catch (const DataError& error) {
      said = error.what();
    }
  }).join();
  if (!refused) GTEST_SKIP() << "no seccomp: a lock cannot be made to fail";
  EXPECT_THAT(said, HasSubstr("cannot be locked: No locks available"));
}

TEST(RunDirectory, WithoutPermissionItSaysSo) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TempDir folder;
  std::filesystem::create_directory(folder / "shut");
  ::chmod((folder / "shut").c_str(), 0500);
  EXPECT_THAT([&] { RunDirectory run(folder / "shut"); }, ThrowsMessage<DataError>(HasSubstr("Permission denied")));
}

TEST(RunDirectory, AFineTuningCheckpointInsideIsRefused) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "other");
  const auto refused = HasSubstr("fine_tune_checkpoint");
  EXPECT_THAT([&] { refuse_own_directory(folder.path(), folder / "ckpt-1"); }, ThrowsMessage<ConfigError>(refused));
  EXPECT_THAT([&] { refuse_own_directory(folder / "", folder.path()); }, ThrowsMessage<ConfigError>(refused));
  EXPECT_THAT([&] { refuse_own_directory(folder / "other/..", folder / "ckpt-1"); },
              ThrowsMessage<ConfigError>(refused));
  EXPECT_NO_THROW(refuse_own_directory(folder.path(), folder / "other/ckpt-1"));
}

TEST(Signals, TheFirstIsNotedAndTheSecondEndsTheProcess) {
  {
    const SignalGuard guard;
    EXPECT_EQ(SignalGuard::received(), 0);
    ::raise(SIGTERM);
    EXPECT_EQ(SignalGuard::received(), SIGTERM);
  }
  const SignalGuard fresh;
  EXPECT_EQ(SignalGuard::received(), 0);
  EXPECT_EXIT(
      {
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST(Watchdog, NamesTheStageThatIsStuck) {
  Watchdog watchdog(0.05);
  watchdog.enter("waiting for data", 7);
  for (int i = 0; i < 100 && watchdog.warnings() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(watchdog.warnings(), 1);
  watchdog.enter("", 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const int before = watchdog.warnings();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(watchdog.warnings(), before);
}

TEST(LogRecord, MakesTheLineThatScriptsSearchFor) {
  LogRecord record;
  record.step = 16800;
  record.num_steps = 150000;
  record.losses = {{"Loss/classification_loss", 0.512},
                   {"Loss/localization_loss", 0.209},
                   {"Loss/regularization_loss", 0.0674},
                   {"Loss/total_loss", 0.7884}};
  record.learning_rate = 0.004;
  record.gradient_norm = 3.14;
  record.seconds_per_step = 0.412;
  record.images_per_second = 19.4;
  record.data_wait = 0.03;
  record.memory_bytes = int64_t{8} << 30;
  // 133,200 steps at 0.412 s are 54,878 s.
  EXPECT_EQ(log_line(record),
            "Step 16800/150000 (11%) loss=0.7884 cls=0.512 loc=0.209 reg=0.0674 lr=0.004 grad=3.14 0.412s/step 19.4 "
            "img/s data_wait=3% mem=8.0GiB eta=15h14m");
  EXPECT_THAT(metrics_line(record),
              AllOf(HasSubstr("\"step\":16800"), HasSubstr("\"total_loss\":0.7884"),
                    HasSubstr("\"classification_loss\":0.512"), HasSubstr("\"learning_rate\":0.004"),
                    HasSubstr("\"images_per_second\":19.4"), HasSubstr("\"data_wait\":0.03")));
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(3), "3s");
}

TEST(Memory, IsKnown) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
}

}  // namespace
}  // namespace osprey::train
