#include "osprey/train/machine_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/processors.h"
#include "support/temp_dir.h"
#include "train/machine_findings.h"

namespace osprey::train {
namespace {
using osprey::testing::read_file;
using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::HasSubstr;
using State = MachineFinding::State;

TEST(MachineCheck, TextAndJsonSayWhatWasFound) {
  const Findings findings{{"cpu", State::kOk, "fast", ""}, {"memory", State::kProblem, "none", "buy some"}};
  EXPECT_EQ(machine_text(findings),
            "ok       cpu             fast\n"
            "problem  memory          none\n"
            "                         -> buy some\n"
            "1 problem, 0 warnings\n");
  const auto json = nlohmann::json::parse(machine_json(findings));
  EXPECT_EQ(json["problem"], true);
  EXPECT_TRUE(json["versions"].contains("libtorch"));
  EXPECT_EQ(json["findings"][1],
            (nlohmann::json{{"subject", "memory"}, {"state", "problem"}, {"found", "none"}, {"advice", "buy some"}}));
  EXPECT_TRUE(has_problem(findings));
  EXPECT_FALSE(has_problem({{"cpu", State::kWarning, "slow", "wait"}}));
}

TEST(MachineCheck, AFolderIsTriedAndLeftAsItWas) {
  const TempDir folder;
  Findings findings;
  const std::filesystem::path made = std::filesystem::path(folder.path()) / "a" / "b";
  look_at_folder(findings, made);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  std::filesystem::create_directories(made);
  write_file(made / "kept", "x");
  look_at_folder(findings, made);
  EXPECT_TRUE(std::filesystem::exists(made / "kept"));
  EXPECT_FALSE(std::filesystem::exists(made / ".lock"));
  write_file(folder / "file", "x");
  look_at_folder(findings, folder / "file");
  ASSERT_EQ(findings.size(), 3);
  EXPECT_NE(findings[0].state, State::kProblem) << findings[0].found;
  EXPECT_NE(findings[1].state, State::kProblem) << findings[1].found;
  EXPECT_EQ(findings[2].state, State::kProblem);
  EXPECT_THAT(findings[2].found, HasSubstr("file"));
  EXPECT_EQ(read_file(folder / "file"), "x");
}

TEST(MachineCheck, AStepThatCannotBeMadeIsAProblemWithItsReason) {
  Findings findings;
  try_steps(findings, "cuda:99", std::nullopt);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].subject, "step on cuda:99");
  EXPECT_EQ(findings[0].state, State::kProblem);
  EXPECT_THAT(findings[0].found, HasSubstr("--device cuda:99"));
}

TEST(MachineCheck, ProcessorsAreThoseThatAllLimitsLeave) {
  EXPECT_EQ((ProcessorLimits{8, 6, 0}.usable()), 6);
  EXPECT_EQ((ProcessorLimits{8, 6, 2.5}.usable()), 3) << "two threads would leave half a processor idle";
  EXPECT_EQ((ProcessorLimits{8, 6, 7}.usable()), 6);
  EXPECT_EQ((ProcessorLimits{8, 6, 0.1}.usable()), 1);
  const ProcessorLimits here = processor_limits();
  EXPECT_GE(here.allowed, 1);
  EXPECT_LE(here.allowed, here.of_machine);
}

TEST(MachineCheck, ThreadsAreComparedWithWhatTheMachineLeavesThem) {
  Findings findings;
  look_at_threads(findings, 8, {8, 8, 0});
  look_at_threads(findings, 4, {8, 8, 0});  // one for each core of two threads
  look_at_threads(findings, 8, {8, 8, 2});
  look_at_threads(findings, 1, {8, 4, 0});
  EXPECT_EQ(findings[0].state, State::kOk);
  EXPECT_EQ(findings[1].state, State::kOk);
  EXPECT_EQ(findings[2].state, State::kWarning);
  EXPECT_EQ(findings[2].found, "8 for a step, on 8 processors, with the time of 2 (control group)");
  EXPECT_THAT(findings[2].advice, HasSubstr("OMP_NUM_THREADS=2"));
  EXPECT_EQ(findings[3].state, State::kWarning);
  EXPECT_THAT(findings[3].found, HasSubstr("of which this process may use 4"));
  EXPECT_THAT(findings[3].advice, HasSubstr("OMP_NUM_THREADS=4"));
}

/// The program with variables and limits of the shell before it.
class DoctorTest : public ::testing::Test {
 protected:
  int run(const std::string& before, const std::string& flags) {
    const std::string out = folder_ / "out", err = folder_ / "err";
    const int status = std::system(
        fmt::format("{} '{}/bin/doctor' {} > '{}' 2> '{}'", before, OSPREY_BINARY_DIR, flags, out, err).c_str());
    said_ = read_file(out);
    complained_ = read_file(err);
    return WEXITSTATUS(status);
  }
  nlohmann::json finding(const std::string& subject) const {
    const auto json = nlohmann::json::parse(said_);
    for (const auto& finding : json["findings"])
      if (finding["subject"] == subject) return finding;
    ADD_FAILURE() << "nothing is said of " << subject << ": " << said_;
    return {};
  }

  TempDir folder_;
  std::string said_, complained_;
};

TEST_F(DoctorTest, SaysWhatOfTheMachineIsOtherThanItShouldBe) {
  ASSERT_EQ(run("ulimit -n 256; OSPREY_MAX_CPU_ISA=AVX2", "--json --model_dir " + folder_ / "run"), 0)
      << said_ << complained_;
  EXPECT_EQ(finding("open files")["state"], "warning");
  EXPECT_THAT(finding("cpu")["found"].get<std::string>(), HasSubstr("OSPREY_MAX_CPU_ISA=AVX2"));
  EXPECT_EQ(finding("step on cpu")["state"], "ok");
  EXPECT_THAT(finding("step on cpu")["found"].get<std::string>(), HasSubstr("precision AUTO is fp32"));
  EXPECT_EQ(finding("model_dir")["advice"].is_string(), true);
}

TEST_F(DoctorTest, NamesSharedMemoryThatCannotBeWritten) {
  if (std::system("unshare -rm mount -t tmpfs -o ro none /dev/shm 2> /dev/null") != 0)
    GTEST_SKIP() << "nothing may be mounted here";
  run(R"(unshare -rm sh -c 'mount -t tmpfs -o ro none /dev/shm && exec "$0" "$@"')", "--json");
  EXPECT_EQ(finding("/dev/shm")["state"], "warning");
  EXPECT_THAT(finding("/dev/shm")["found"].get<std::string>(), HasSubstr("Read-only file system"));
}

TEST_F(DoctorTest, TriesTheModelOfAConfig) {
  const std::string config = OSPREY_SOURCE_DIR "/configs/quickstart.config";
  ASSERT_EQ(run("", fmt::format("--pipeline_config '{}' --set train_config.batch_size=3 --json", config)), 0)
      << said_ << complained_;
  EXPECT_THAT(finding("step on cpu")["found"].get<std::string>(),
              HasSubstr("3 pictures of the config, precision fp32"));
}

TEST_F(DoctorTest, HasExitCodes) {
  write_file(folder_ / "file", "x");
  EXPECT_EQ(run("", "--model_dir " + folder_ / "file"), 3);
  EXPECT_THAT(said_, HasSubstr("problem  model_dir"));
  EXPECT_EQ(run("", "--set train_config.batch_size=3"), 2);
  EXPECT_THAT(complained_, HasSubstr("--pipeline_config"));
  EXPECT_EQ(run("", "--pipeline_config /no/such.config"), 2);
  EXPECT_EQ(
      run("", "--pipeline_config '" OSPREY_SOURCE_DIR "/configs/quickstart.config' --set train_config.batch_size=0"), 2)
      << said_;
}

/// A driver of another version, for lack of a machine with one.
TEST_F(DoctorTest, NamesADriverThatIsTooOld) {
  write_file(folder_ / "driver.c",
             "int cuInit(unsigned f) { return 0; }\n"
             "int cuDriverGetVersion(int* v) { *v = 11080; return 0; }\n"
             "int cuDeviceGetCount(int* n) { *n = 1; return 0; }\n"
             "int cuDeviceGet(int* d, int i) { *d = i; return 0; }\n"
             "int cuDeviceGetName(char* s, int n, int d) { s[0] = 'K'; s[1] = '8'; s[2] = 0; return 0; }\n"
             "int cuDeviceTotalMem_v2(unsigned long* b, int d) { *b = 12ul << 30; return 0; }\n"
             "int cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? 3 : 7; return 0; }\n");
  const std::string library = folder_ / "libcuda.so.1";
  if (std::system(fmt::format("cc -shared -fPIC -o '{}' '{}'", library, folder_ / "driver.c").c_str()) != 0)
    GTEST_SKIP() << "there is no C compiler here";
  EXPECT_EQ(run(fmt::format("LD_LIBRARY_PATH='{}'", folder_.path().string()), "--json"), 3);
  EXPECT_EQ(finding("gpu 0")["found"], "K8, 12 GiB, compute capability 3.7, driver for CUDA 11.8");
  EXPECT_EQ(finding("gpu")["state"], "problem");
  const auto versions = nlohmann::json::parse(said_)["versions"];
  EXPECT_THAT(finding("gpu")["found"].get<std::string>(),
              HasSubstr(versions.contains("cuda") ? "the driver serves CUDA 11.8 at most, libtorch needs " +
                                                        versions["cuda"].get<std::string>()
                                                  : "this build's libtorch has no CUDA"));
}

}  // namespace
}  // namespace osprey::train
