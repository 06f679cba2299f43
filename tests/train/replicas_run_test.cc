// Trainings of several processes, started as users start them.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "osprey/checkpoint/directory.h"
#include "osprey/train/replicas.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::read_file;
using osprey::testing::TempDir;
using ::testing::HasSubstr;

/// A program that runs, with stdout and stderr in a file.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
          const std::filesystem::path& output) {
    std::vector<std::string> all{std::string(OSPREY_BINARY_DIR) + "/bin/train_detector"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment(variables);
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      for (std::string& text : texts) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    EXPECT_EQ(
        ::posix_spawn(&process_, all[0].c_str(), &files, nullptr, pointers(all).data(), pointers(environment).data()),
        0);
    posix_spawn_file_actions_destroy(&files);
  }
  /// 128 + signal where one ended it.
  int wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Processes that it has started.
  std::vector<pid_t> children() const {
    const std::string number = std::to_string(process_);
    std::istringstream list(read_file("/proc/" + number + "/task/" + number + "/children"));
    std::vector<pid_t> result;
    for (pid_t child = 0; list >> child;) result.push_back(child);
    return result;
  }

 private:
  pid_t process_ = 0;
};

/// A training of some steps on made-up pictures whose steps do not depend on how they are shared: batch norm is frozen.
std::vector<std::string> training(const std::filesystem::path& folder, int steps,
                                  const std::vector<std::string>& more) {
  std::vector<std::string> result = {"--pipeline_config",
                                     std::string(OSPREY_SOURCE_DIR) + "/configs/quickstart.config",
                                     "--model_dir",
                                     folder.string(),
                                     "--use_fake_data",
                                     "--set",
                                     "train_config.batch_size=8",
                                     "--set",
                                     "model.ssd.freeze_batchnorm=true",
                                     "--log_every_n",
                                     "1",
                                     "--checkpoint_every_n",
                                     "5",
                                     "--num_train_steps",
                                     std::to_string(steps)};
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

int run(const std::vector<std::string>& arguments, const std::filesystem::path& output) {
  return Process(arguments, {}, output).wait();
}

std::vector<double> losses(const std::filesystem::path& folder) {
  std::vector<double> result;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);)
    result.push_back(nlohmann::json::parse(line).at("total_loss").get<double>());
  return result;
}

TEST(ReplicasRun, LogsTheLossesOfOneProcess) {
  const TempDir one, two, output;
  ASSERT_EQ(run(training(one.path(), 6, {}), output / "log"), 0) << read_file(output / "log");
  ASSERT_EQ(run(training(two.path(), 6, {"--num_clones", "2"}), output / "log"), 0) << read_file(output / "log");
  const std::vector<double> expected = losses(one.path()), found = losses(two.path());
  ASSERT_EQ(expected.size(), 6u);
  ASSERT_EQ(found.size(), 6u) << "the chief alone writes";
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << "step " << i;
  EXPECT_THAT(read_file(output / "log"), HasSubstr("2 replicas of 4 images each"));
}

TEST(ReplicasRun, ReportABatchThatIsLeftOutAndGoOnTogether) {
  const TempDir folder, output;
  const std::string rate = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.";
  EXPECT_EQ(run(training(folder.path(), 12,
                         {"--num_clones", "2", "--set", "model.ssd.freeze_batchnorm=false", "--set",
                          "train_config.sync_batch_norm=true", "--set", rate + "learning_rate_base=1e30", "--set",
                          rate + "warmup_steps=0", "--set",
                          "train_config.on_nan={policy: SKIP_BATCH max_skipped_in_a_row: 2}"}),
                output / "log"),
            4);
  EXPECT_THAT(read_file(output / "log"),
              ::testing::AllOf(::testing::ContainsRegex("1 in all; not finite: .*the report is in"),
                               HasSubstr("it is left out, 2 in a row of at most 2, 2 in all"),
                               HasSubstr("nor were the 2 before it")));
}

/// Trainings of one step that are evaluated on pictures of shapes, by one or more processes; the step changes nothing.
class EvaluatedTrainings {
 public:
  explicit EvaluatedTrainings(int num_images) {
    EXPECT_EQ(std::system(fmt::format("'{0}/bin/create_records' --format shapes --num_images {2} --label_map "
                                      "'{1}/label_map.pbtxt' --output '{1}/train.record' > /dev/null 2>&1",
                                      OSPREY_BINARY_DIR, data_.path().string(), num_images)
                              .c_str()),
              0);
    std::filesystem::copy(data_ / "train.record", data_ / "test.record");
  }

  std::vector<std::string> arguments(const TempDir& folder, int clones, int eval_batch) const {
    const std::string rate = "train_config.optimizer.momentum_optimizer.learning_rate";
    std::vector<std::string> result = {
        "--pipeline_config", std::string(OSPREY_SOURCE_DIR) + "/configs/quickstart.config",
        "--data_dir",        data_.path().string(),
        "--model_dir",       folder.path().string(),
        "--num_clones",      std::to_string(clones),
        "--num_train_steps", "1"};
    for (const std::string& setting :
         {std::string("train_config.batch_size=4"), fmt::format("eval_config.batch_size={}", eval_batch),
          std::string("model.ssd.freeze_batchnorm=true"), rate + ".constant_learning_rate.learning_rate=0"}) {
      result.emplace_back("--set");
      result.push_back(setting);
    }
    return result;
  }

 private:
  TempDir data_;
};

TEST(ReplicasRun, EvaluatesWhatOneProcessEvaluates) {
  const EvaluatedTrainings trainings(21);
  const TempDir one, two, output;
  ASSERT_EQ(run(trainings.arguments(one, 1, 4), output / "log"), 0) << read_file(output / "log");
  ASSERT_EQ(run(trainings.arguments(two, 2, 4), output / "log"), 0) << read_file(output / "log");
  for (const char* file : {"eval/metrics_1.json", "eval/detections_1.json"}) {
    const std::string expected = read_file(one / file);
    EXPECT_GT(expected.size(), 500u);
    EXPECT_EQ(read_file(two / file), expected) << file;
  }
}

TEST(ReplicasRun, ASignalToOneEndsTheEvaluationOfAllAndItIsMadeLater) {
  const EvaluatedTrainings trainings(80);
  const TempDir folder, output;
  const std::vector<std::string> arguments = trainings.arguments(folder, 2, 1);
  Process launcher(arguments, {}, output / "log");
  for (int i = 0; i < 60000 && !std::filesystem::exists(folder / "ckpt-1.osprey"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<pid_t> replicas = launcher.children();
  ASSERT_EQ(replicas.size(), 2u) << read_file(output / "log");
  ::kill(replicas[1], SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM) << read_file(output / "log");
  EXPECT_FALSE(std::filesystem::exists(folder / "eval/metrics_1.json"));
  EXPECT_EQ(run(arguments, output / "again"), 0) << read_file(output / "again");
  EXPECT_THAT(read_file(output / "again"), HasSubstr("its evaluation, which was lost, is made now"));
  EXPECT_EQ(osprey::testing::read_json(folder / "eval/metrics_1.json").at("num_images"), 80);
  EXPECT_EQ(run(arguments, output / "third"), 0) << read_file(output / "third");
  EXPECT_THAT(read_file(output / "third"), HasSubstr("nothing to do"));
}

TEST(ReplicasRun, GoesOnAfterAReplicaIsKilledAndEndsTheSame) {
  constexpr int kRunSteps = 30;
  const TempDir whole, killed, output;
  ASSERT_EQ(run(training(whole.path(), kRunSteps, {"--num_clones", "2"}), output / "log"), 0)
      << read_file(output / "log");
  Process launcher(training(killed.path(), kRunSteps, {"--num_clones", "2", "--max_restarts", "3"}), {},
                   output / "killed");
  for (const int step : {5, 15}) {
    for (int i = 0; i < 6000; ++i) {
      const auto newest = checkpoint::latest(killed.path());
      if (newest && newest->step >= step) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const std::vector<pid_t> replicas = launcher.children();
    ASSERT_EQ(replicas.size(), 2u) << read_file(output / "killed");
    ::kill(replicas[step == 5 ? 1 : 0], SIGKILL);
  }
  EXPECT_EQ(launcher.wait(), 0) << read_file(output / "killed");
  EXPECT_THAT(read_file(output / "killed"), HasSubstr("was ended by signal 9 (Killed); restart 2 of 3"));
  const std::string name = "ckpt-" + std::to_string(kRunSteps) + checkpoint::kExtension;
  EXPECT_EQ(read_file(whole / name), read_file(killed / name));
}

TEST(ReplicasRun, ACheckpointOfTwoIsResumedByOneAndFour) {
  const TempDir two, output;
  ASSERT_EQ(run(training(two.path(), 5, {"--num_clones", "2"}), output / "log"), 0) << read_file(output / "log");
  std::vector<std::vector<double>> found;
  for (const char* clones : {"1", "4"}) {
    const TempDir again;
    std::filesystem::copy(two.path(), again.path(),
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(run(training(again.path(), 9, {"--num_clones", clones}), output / "log"), 0) << read_file(output / "log");
    found.push_back(losses(again.path()));
    ASSERT_EQ(found.back().size(), 9u);
  }
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(found[1][i], found[0][i], 1e-5 * found[0][i]) << "step " << i;
}

TEST(ReplicasRun, UnderstandsTorchrunsEnvironment) {
  const TempDir folder, output;
  std::vector<std::unique_ptr<Process>> replicas;
  const std::string port = std::to_string(free_port());
  for (const char* rank : {"0", "1"})
    replicas.push_back(std::make_unique<Process>(
        training(folder.path(), 3, {}),
        std::vector<std::string>{"RANK=" + std::string(rank), "WORLD_SIZE=2", "LOCAL_RANK=" + std::string(rank),
                                 "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.2", "MASTER_PORT=" + port},
        output / rank));
  for (const auto& replica : replicas)
    EXPECT_EQ(replica->wait(), 0) << read_file(output / "0") << read_file(output / "1");
  EXPECT_EQ(losses(folder.path()).size(), 3u);
}

TEST(ReplicasRun, SyncBatchNormUsesTheWholeBatch) {
  const auto first_loss = [](const std::vector<std::string>& more) {
    const TempDir folder, output;
    std::vector<std::string> all = {"--set", "model.ssd.freeze_batchnorm=false"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run(training(folder.path(), 1, all), output / "log"), 0) << read_file(output / "log");
    return losses(folder.path()).at(0);
  };
  const double one = first_loss({}), apart = first_loss({"--num_clones", "2"}),
               together = first_loss({"--num_clones", "2", "--set", "train_config.sync_batch_norm=true"});
  EXPECT_NEAR(together, one, 1e-5 * one);
  EXPECT_GT(std::abs(apart - one), 1e-3 * one) << "otherwise this test shows nothing";
}

TEST(ReplicasRun, DivergedReplicasEndTogetherWithAReport) {
  const TempDir folder, output;
  const std::string rate = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.";
  EXPECT_EQ(run(training(folder.path(), 3,
                         {"--num_clones", "2", "--set", "model.ssd.freeze_batchnorm=false", "--set",
                          "train_config.sync_batch_norm=true", "--set", rate + "learning_rate_base=1e30", "--set",
                          rate + "warmup_steps=0"}),
                output / "log"),
            4)
      << read_file(output / "log");
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "nan_report" / "report.json")) << read_file(output / "log");
}

TEST(ReplicasRun, SaysWhatIsWrong) {
  const TempDir folder, output;
  EXPECT_EQ(run(training(folder.path(), 3, {"--num_clones", "3"}), output / "uneven"), 2);
  EXPECT_THAT(read_file(output / "uneven"), HasSubstr("8 images cannot be shared evenly by 3 replicas; 6 or 9 can"));

  std::vector<std::unique_ptr<Process>> replicas;
  const std::string port = std::to_string(free_port());
  for (const char* rank : {"0", "1"})
    replicas.push_back(
        std::make_unique<Process>(training(folder.path(), 3, {"--set", "train_config.seed=" + std::string(rank)}),
                                  std::vector<std::string>{"RANK=" + std::string(rank), "WORLD_SIZE=2",
                                                           "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port},
                                  output / rank));
  for (const auto& replica : replicas) EXPECT_EQ(replica->wait(), 2);
  EXPECT_THAT(read_file(output / "0"), HasSubstr("replica 1 has another config than replica 0"));

  EXPECT_EQ(run(training(folder.path(), 3, {"--max_restarts", "2"}), output / "alone"), 2);
  EXPECT_THAT(read_file(output / "alone"), HasSubstr("--max_restarts need several replicas"));
  Process started(training(folder.path(), 3, {"--num_clones", "2"}), {"RANK=0", "WORLD_SIZE=2"}, output / "started");
  EXPECT_EQ(started.wait(), 2);
  EXPECT_THAT(read_file(output / "started"), HasSubstr("torchrun has started this process as one of 2 replicas"));
}

}  // namespace
}  // namespace osprey::train
