// What a run leaves in <model_dir>/train.log.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>

#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::read_file;
using osprey::testing::read_json;
using osprey::testing::TempDir;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// A training of the quickstart on made-up pictures.
class Training {
 public:
  /// The exit code; `shown` becomes what the program has said, and `log` what it has written.
  int run(const std::string& more) {
    const std::string command = fmt::format(
        "'{0}/bin/train_detector' --pipeline_config '{1}/configs/quickstart.config' --model_dir '{2}/run' "
        "--use_fake_data --train_batch_size 2 {3} > '{2}/shown' 2>&1",
        OSPREY_BINARY_DIR, OSPREY_SOURCE_DIR, folder.path().string(), more);
    const int status = std::system(command.c_str());
    shown = read_file(folder / "shown");
    log = read_file(folder / "run/train.log");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TempDir folder;
  std::string shown, log;
};

TEST(TrainLog, HoldsTheErrorThatEndsTheRunAndWhatWasSaidBeforeItWasOpened) {
  Training training;
  const std::string rate = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.";
  ASSERT_EQ(training.run("--logtostderr --num_train_steps 5 --checkpoint_every_n 1 --set " + rate +
                         "learning_rate_base=1e30 --set " + rate + "warmup_steps=0"),
            4)
      << training.shown;
  EXPECT_THAT(training.log, HasSubstr("the log goes to stderr anyway")) << "which comes with the flags";
  const auto error = AllOf(HasSubstr("LossTensor is inf or nan. Step "), HasSubstr("not finite: Loss/"),
                           ContainsRegex("first layer with an output that is not finite: .+ \\(aten::"),
                           HasSubstr("last finite checkpoint: " + (training.folder / "run/ckpt-")),
                           HasSubstr("the report is in " + (training.folder / "run/nan_report")));
  EXPECT_THAT(training.shown, error);
  EXPECT_THAT(training.log, error);
}

TEST(TrainLog, SaysWhichBatchesWereLeftOutAndThatTheyAreTooMany) {
  Training training;
  const std::string rate = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.";
  ASSERT_EQ(training.run("--num_train_steps 20 --checkpoint_every_n 1 --log_every_n 1 --set " + rate +
                         "learning_rate_base=1e30 --set " + rate +
                         "warmup_steps=0 --set 'train_config.on_nan={policy: SKIP_BATCH max_skipped_in_a_row: 2}'"),
            4)
      << training.shown;
  EXPECT_THAT(training.log,
              AllOf(ContainsRegex("Loss or gradients of step .+ are not finite, images .+, .+: it is left out, 1 in a "
                                  "row of at most 2, 1 in all; not finite: Loss/"),
                    HasSubstr("it is left out, 2 in a row of at most 2, 2 in all\n"), HasSubstr(" skipped=2 "),
                    HasSubstr("nor were the 2 before it"), HasSubstr("nan_report")));
  EXPECT_THAT(read_file(training.folder / "run/metrics.jsonl"), HasSubstr("\"skipped_batches\":2"));
}

TEST(TrainLog, HasOneLineForAllFrozenVariables) {
  Training training;
  ASSERT_EQ(training.run("--num_train_steps 1 --set train_config.freeze_variables=FeatureExtractor"), 0)
      << training.shown;
  const auto frozen = read_json(training.folder / "run/run_info.json").at("frozen_variables");
  ASSERT_GT(frozen.size(), 10u);
  EXPECT_THAT(training.log, HasSubstr(fmt::format("Frozen: {} of ", frozen.size())));
  EXPECT_THAT(training.log,
              HasSubstr(fmt::format("{}, ... (run_info.json lists them all)", frozen[2].get<std::string>())));
  EXPECT_THAT(training.log, Not(HasSubstr(frozen[3].get<std::string>())));
}

TEST(TrainLog, SaysThatNumTrainStepsTakesThePlaceOfNumEpochs) {
  Training training;
  ASSERT_EQ(training.run("--num_train_steps 1 --set train_config.num_epochs=3"), 0) << training.shown;
  EXPECT_THAT(training.log, HasSubstr("--num_train_steps 1 is obeyed, train_config.num_epochs 3 is not"));
  ASSERT_EQ(training.run("--num_train_steps 2"), 0) << training.shown;
  EXPECT_THAT(training.shown, Not(HasSubstr("is obeyed")));
}

TEST(TrainLog, SaysThatEvalEveryNTakesThePlaceOfItsEpochs) {
  Training training;
  ASSERT_EQ(training.run("--num_train_steps 1 --eval_every_n 500 --set eval_config.eval_every_n_epochs=2"), 0)
      << training.shown;
  EXPECT_THAT(training.log, HasSubstr("--eval_every_n 500 is obeyed, eval_config.eval_every_n_epochs 2 is not"));
}

}  // namespace
}  // namespace osprey::train
