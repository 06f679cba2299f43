#include "osprey/config/batch_scaling.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"

namespace osprey::config {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Pipeline pipeline(const std::string& schedule, const std::string& scaling) {
  return parse_pipeline(
      fmt::format("train_config {{ batch_size: 32 num_steps: 1000 optimizer {{ momentum_optimizer {{ "
                  "learning_rate {{ {} }} }} }} auto_scale_lr {{ {} }} }}",
                  schedule, scaling));
}

/// The schedule after scaling, as text on one line.
std::string scaled(const std::string& schedule, const std::string& scaling) {
  Pipeline config = pipeline(schedule, scaling);
  scale_to_batch(config);
  EXPECT_FALSE(config.message->train_config().has_auto_scale_lr()) << "a second time changes nothing";
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(config.message->train_config().optimizer().momentum_optimizer().learning_rate(), &text);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

TEST(BatchScaling, MultipliesEveryRateButTheStartOfAWarmUp) {
  EXPECT_EQ(scaled("constant_learning_rate { learning_rate: 0.25 }", "base_batch_size: 8"),
            "constant_learning_rate { learning_rate: 1 }");
  EXPECT_EQ(
      scaled("cosine_decay_learning_rate { learning_rate_base: 0.25 total_steps: 1000 warmup_learning_rate: 0.125 "
             "warmup_steps: 100 hold_base_rate_steps: 0 }",
             "base_batch_size: 8"),
      "cosine_decay_learning_rate { learning_rate_base: 1 total_steps: 1000 warmup_learning_rate: 0.125 "
      "warmup_steps: 100 hold_base_rate_steps: 0 }");
  EXPECT_EQ(
      scaled("manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 10 learning_rate: 0.125 } }",
             "base_batch_size: 64"),
      "manual_step_learning_rate { initial_learning_rate: 0.125 schedule { step: 10 learning_rate: 0.0625 } }");
  EXPECT_EQ(
      scaled("manual_step_learning_rate { initial_learning_rate: 0.25 warmup: true schedule { step: 10 "
             "learning_rate: 0.5 } }",
             "base_batch_size: 8"),
      "manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 10 learning_rate: 2 } warmup: true }");
  EXPECT_EQ(
      scaled("exponential_decay_learning_rate { initial_learning_rate: 0.25 decay_steps: 100 min_learning_rate: "
             "0.125 burnin_learning_rate: 0.0625 burnin_steps: 8 }",
             "base_batch_size: 16"),
      "exponential_decay_learning_rate { initial_learning_rate: 0.5 decay_steps: 100 burnin_learning_rate: 0.0625 "
      "burnin_steps: 8 min_learning_rate: 0.25 }");
}

TEST(BatchScaling, ShortensTheScheduleWhereAsked) {
  EXPECT_EQ(
      scaled("cosine_decay_learning_rate { learning_rate_base: 0.25 total_steps: 1000 warmup_learning_rate: 0.125 "
             "warmup_steps: 100 hold_base_rate_steps: 2 }",
             "base_batch_size: 8 scale_schedule: true"),
      "cosine_decay_learning_rate { learning_rate_base: 1 total_steps: 250 warmup_learning_rate: 0.125 "
      "warmup_steps: 25 hold_base_rate_steps: 1 }");
  Pipeline config =
      pipeline("constant_learning_rate { learning_rate: 0.25 }", "base_batch_size: 8 scale_schedule: true");
  EXPECT_EQ(scale_to_batch(config),
            "auto_scale_lr: batch 32 instead of 8: learning rates x 4, 250 steps instead of 1000");
  EXPECT_EQ(config.message->train_config().num_steps(), 250u);
}

TEST(BatchScaling, AddsAWarmUpWhereThereIsNone) {
  EXPECT_EQ(
      scaled("constant_learning_rate { learning_rate: 0.25 }", "base_batch_size: 8 warmup_steps: 50"),
      "manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 50 learning_rate: 1 } warmup: true }");
  EXPECT_EQ(
      scaled("manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 90 learning_rate: 0.125 } }",
             "base_batch_size: 8 warmup_steps: 50"),
      "manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 50 learning_rate: 1 } schedule { "
      "step: 90 learning_rate: 0.5 } warmup: true }");
  EXPECT_EQ(scaled("cosine_decay_learning_rate { learning_rate_base: 0.25 total_steps: 1000 warmup_steps: 0 }",
                   "base_batch_size: 8 warmup_steps: 50"),
            "cosine_decay_learning_rate { learning_rate_base: 1 total_steps: 1000 warmup_learning_rate: 0.25 "
            "warmup_steps: 50 hold_base_rate_steps: 0 }");
  EXPECT_EQ(scaled("constant_learning_rate { learning_rate: 0.25 }", "base_batch_size: 64 warmup_steps: 50"),
            "constant_learning_rate { learning_rate: 0.125 }")
      << "a smaller rate needs no warm-up";
}

TEST(BatchScaling, SaysWhatItCannotDo) {
  Pipeline unset = pipeline("constant_learning_rate {}", "");
  EXPECT_THAT([&] { scale_to_batch(unset); },
              ThrowsMessage<ConfigError>(HasSubstr("train_config.auto_scale_lr.base_batch_size: must be >= 1")));
  Pipeline long_one =
      pipeline("manual_step_learning_rate { initial_learning_rate: 0.25 schedule { step: 90 learning_rate: 0.125 } }",
               "base_batch_size: 8 warmup_steps: 90");
  EXPECT_THAT(
      [&] { scale_to_batch(long_one); },
      ThrowsMessage<ConfigError>(HasSubstr("train_config.auto_scale_lr.warmup_steps: must be less than the first "
                                           "step of the schedule, 90, got 90")));
  Pipeline endless =
      pipeline("constant_learning_rate { learning_rate: 0.25 }", "base_batch_size: 4000000000 scale_schedule: true");
  scale_to_batch(endless);
  EXPECT_EQ(endless.message->train_config().num_steps(), 4294967295u) << "as many as the field holds";
  Pipeline none = parse_pipeline("train_config { batch_size: 4 }");
  EXPECT_EQ(scale_to_batch(none), "");
}

}  // namespace
}  // namespace osprey::config
