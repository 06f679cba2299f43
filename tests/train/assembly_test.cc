#include "../src/train/assembly.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"

namespace osprey::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The quickstart config with lines of its own.
Assembly assembled(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"train_config.batch_size=2", "train_input_reader.label_map_path="});
  return assemble(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", overrides),
                  {.use_fake_data = true});
}

void expect_refused(const std::string& override, const std::string& field, const std::string& why) {
  EXPECT_THAT([&] { assembled({override}); }, ThrowsMessage<ConfigError>(AllOf(HasSubstr(field), HasSubstr(why))))
      << override;
}

TEST(Assembly, ALossScaleThatCannotBeIsRefusedByName) {
  expect_refused("train_config.loss_scale.fixed=0", "train_config.loss_scale.fixed", "> 0, got 0");
  expect_refused("train_config.loss_scale.fixed=-2", "train_config.loss_scale.fixed", "> 0, got -2");
  expect_refused("train_config.loss_scale.dynamic.initial=0", "train_config.loss_scale.dynamic.initial", "> 0, got 0");
  expect_refused("train_config.loss_scale.dynamic.growth_interval=0", "train_config.loss_scale.dynamic.growth_interval",
                 ">= 1");
  expect_refused("train_config.loss_scale.none=false", "train_config.loss_scale.none", "none: true");
}

TEST(Assembly, TheLossIsScaledWhereHalfPrecisionOrTheConfigAsksForIt) {
  EXPECT_EQ(assembled({}).state.loss_scale, nullptr);
  EXPECT_NE(assembled({"train_config.precision=FP16"}).state.loss_scale, nullptr);
  EXPECT_EQ(assembled({"train_config.precision=FP16", "train_config.loss_scale.none=true"}).state.loss_scale, nullptr);
  EXPECT_NE(assembled({"train_config.loss_scale.fixed=128"}).state.loss_scale, nullptr);
}

TEST(Assembly, ARecordedStepThatCannotBeIsRefusedByName) {
  const std::string on = "train_config.accelerator.cuda_graph=ON", field = "train_config.accelerator.cuda_graph";
  EXPECT_FALSE(assembled({}).cuda_graph) << "AUTO on a CPU";
  expect_refused(on, field, "needs a GPU");
  EXPECT_THAT(
      [&] {
        assembled({on, "model.ssd.loss.hard_example_miner.num_hard_examples=10"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr(field), HasSubstr("model.ssd.loss.hard_example_miner"))));
}

}  // namespace
}  // namespace osprey::train
