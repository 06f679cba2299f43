#include "osprey/optim/learning_rate.h"

#include <gmock/gmock.h>

#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::unique_ptr<LearningRate> build(const std::string& text) {
  return build_learning_rate(config::parse<proto::LearningRate>(text, "test.config").node());
}

TEST(LearningRate, EveryChoiceOfTheSchemaBuildsWithItsDefaultsOrSaysWhatIsMissing) {
  EXPECT_NO_THROW(build("constant_learning_rate {}"));
  EXPECT_NO_THROW(build("exponential_decay_learning_rate {}"));
  EXPECT_NO_THROW(build("cosine_decay_learning_rate {}"));
  EXPECT_THAT([] { build("manual_step_learning_rate {}"); },
              ThrowsMessage<ConfigError>(HasSubstr("manual_step_learning_rate.schedule: must have")));
  EXPECT_THAT([] { build(""); }, ThrowsMessage<ConfigError>(HasSubstr("no learning_rate is chosen")));
}

TEST(LearningRate, OnlySchedulesThatReachZeroEnd) {
  EXPECT_FALSE(build("constant_learning_rate {}")->end());
  EXPECT_FALSE(build("exponential_decay_learning_rate {}")->end());
  EXPECT_FALSE(build("manual_step_learning_rate { schedule { step: 5 learning_rate: 0.1 } }")->end());
  EXPECT_EQ(build("manual_step_learning_rate { schedule { step: 5 learning_rate: 0 } }")->end(), 5);
  const auto cosine = build("cosine_decay_learning_rate { total_steps: 100 warmup_steps: 10 }");
  EXPECT_FALSE(cosine->is_past_end(99));
  EXPECT_TRUE(cosine->is_past_end(100));
  EXPECT_EQ(cosine->at(1000), 0);
}

TEST(LearningRate, ACosineMayEndBeforeItBegins) {
  // The hold is cut off at total_steps, after which the rate is 0.
  for (const char* hold : {"20", "40"}) {
    const auto held = build(std::string("cosine_decay_learning_rate { learning_rate_base: 0.5 total_steps: 30 "
                                        "warmup_learning_rate: 0 warmup_steps: 10 hold_base_rate_steps: ") +
                            hold + " }");
    EXPECT_FLOAT_EQ(static_cast<float>(held->at(5)), 0.25f) << hold;
    for (const int64_t step : {10, 29, 30}) EXPECT_EQ(held->at(step), 0.5) << hold << " at step " << step;
    EXPECT_EQ(held->at(31), 0) << hold;
    EXPECT_EQ(held->end(), 31) << hold;
  }
  const auto rise = build(
      "cosine_decay_learning_rate { learning_rate_base: 0.5 total_steps: 10 warmup_learning_rate: 0 warmup_steps: 10 "
      "}");
  EXPECT_FLOAT_EQ(static_cast<float>(rise->at(9)), 0.45f);
  EXPECT_EQ(rise->at(10), 0.5);
  EXPECT_EQ(rise->at(11), 0);
  EXPECT_EQ(rise->end(), 11);
}

TEST(LearningRate, ValuesThatMakeNoScheduleAreRefusedByField) {
  const std::map<std::string, std::string> wrong = {
      {"constant_learning_rate { learning_rate: -1 }", "constant_learning_rate.learning_rate: must be"},
      {"exponential_decay_learning_rate { decay_steps: 0 }", "decay_steps: must be > 0"},
      {"manual_step_learning_rate { schedule { step: 5 } schedule { step: 5 } }", "schedule[1].step: must be larger"},
      {"manual_step_learning_rate { schedule { step: 0 } warmup: true }", "schedule[0].step: must be > 0"},
      {"cosine_decay_learning_rate { total_steps: 10 warmup_steps: 20 }",
       "total_steps: must be at least warmup_steps, 20, got 10"},
      {"cosine_decay_learning_rate { learning_rate_base: 0.1 warmup_learning_rate: 0.2 }",
       "learning_rate_base: must be at least"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_THAT([&text = text] { build(text); }, ThrowsMessage<ConfigError>(HasSubstr(message))) << text;
}

}  // namespace
}  // namespace osprey::optim
