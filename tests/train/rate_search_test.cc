// The search for a learning rate.
#include "osprey/train/rate_search.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"

namespace osprey::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Losses of `steps` rates from 1e-6 to 10, with noise.
RateCurve curve_of(int steps, double noise, const std::function<double(double)>& loss_at_log10) {
  RateCurve curve;
  std::mt19937 random(7);
  std::normal_distribution<double> error(0, noise);
  for (int i = 0; i < steps; ++i) {
    const double log10 = -6 + 7.0 * i / (steps - 1);
    curve.rates.push_back(std::pow(10, log10));
    curve.losses.push_back(loss_at_log10(log10) + error(random));
  }
  return curve;
}

/// Falls fastest at 10^-3, is lowest near 10^-1, then rises.
double usual(double log10) { return 1 - 0.8 / (1 + std::exp(-4 * (log10 + 3))) + 3 * std::exp(6 * (log10 - 0.5)); }

TEST(RateSearch, AdvisesWhereTheLossFallsFastest) {
  for (int steps : {20, 50, 200, 1000})
    for (double noise : {0.0, 0.02}) {
      const RateAdvice advice = advise(curve_of(steps, noise, usual));
      EXPECT_NEAR(std::log10(advice.steepest), -3, 0.5) << steps << " steps, noise " << noise;
      EXPECT_GT(advice.lowest, 1e-2) << steps << " steps, noise " << noise;
      EXPECT_LT(advice.lowest, 1) << steps << " steps, noise " << noise;
    }
}

TEST(RateSearch, AdvisesNothingWhereNoRateLowersTheLoss) {
  EXPECT_EQ(advise(curve_of(100, 0, [](double log10) { return 2 + 0.1 * log10; })).steepest, 0);
  EXPECT_EQ(advise(curve_of(100, 0, [](double) { return 1; })).steepest, 0);
}

TEST(RateSearch, DoesNotTakeAFallAfterTheLowestLoss) {
  // Losses that have exploded may fall again, from a height.
  const auto exploded = [](double log10) { return log10 < 0 ? usual(log10) : 50 - 40 * log10; };
  EXPECT_LT(advise(curve_of(100, 0, exploded)).steepest, 1e-2);
}

TEST(RateSearch, NeedsSomeSteps) {
  EXPECT_THROW(advise(curve_of(9, 0, usual)), c10::Error);
  EXPECT_THROW(advise(RateCurve{std::vector<double>(20, 1), std::vector<double>(19, 1)}), c10::Error);
}

config::Pipeline quickstart(std::vector<std::string> more = {}) {
  config::Overrides overrides;
  overrides.assignments = {"train_config.batch_size=2", "train_input_reader.label_map_path="};
  overrides.assignments.insert(overrides.assignments.end(), more.begin(), more.end());
  return config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", overrides);
}

TEST(RateSearch, RaisesTheRateUntilTheLossDiverges) {
  const nlohmann::json found =
      nlohmann::json::parse(find_learning_rate(quickstart(), {.device = "cpu", .use_fake_data = true}, 40));
  const auto& curve = found.at("curve");
  ASSERT_GE(curve.size(), 10);
  const double each = std::pow(1e7, 1.0 / 39);
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_NEAR(curve[i][0].get<double>() / (1e-6 * std::pow(each, i)), 1, 1e-4) << "step " << i;
    EXPECT_TRUE(std::isfinite(curve[i][1].get<double>())) << "step " << i;
  }
  EXPECT_EQ(found.at("configured_learning_rate"), quickstart()
                                                      .message->train_config()
                                                      .optimizer()
                                                      .momentum_optimizer()
                                                      .learning_rate()
                                                      .cosine_decay_learning_rate()
                                                      .learning_rate_base());
  EXPECT_LE(found.at("loss_falls_fastest_at").get<double>(), found.at("loss_is_lowest_at").get<double>());
}

TEST(RateSearch, TriesTheSameRatesWhereTheConfigScalesItsOwn) {
  const JobOptions job{.device = "cpu", .use_fake_data = true};
  const auto plain = nlohmann::json::parse(find_learning_rate(quickstart(), job, 20)),
             scaled = nlohmann::json::parse(
                 find_learning_rate(quickstart({"train_config.auto_scale_lr.base_batch_size=1"}), job, 20));
  EXPECT_EQ(scaled.at("curve"), plain.at("curve"));
  EXPECT_EQ(scaled.at("configured_learning_rate").get<double>(),
            2 * plain.at("configured_learning_rate").get<double>());
}

TEST(RateSearch, TheConfiguredRateIsThatBehindAWarmUp) {
  const std::string place = "train_config.optimizer.momentum_optimizer.learning_rate=";
  const JobOptions job{.device = "cpu", .use_fake_data = true};
  const auto configured = [&](const std::vector<std::string>& more) {
    return nlohmann::json::parse(find_learning_rate(quickstart(more), job, 20)).at("configured_learning_rate");
  };
  EXPECT_FLOAT_EQ(configured({place + "{manual_step_learning_rate {initial_learning_rate: 0.001 warmup: true "
                                      "schedule {step: 100 learning_rate: 0.05}}}"})
                      .get<float>(),
                  0.05f);
  EXPECT_FLOAT_EQ(configured({place + "{constant_learning_rate {learning_rate: 0.01}}",
                              "train_config.auto_scale_lr={base_batch_size: 1 warmup_steps: 100}"})
                      .get<float>(),
                  0.02f);
}

TEST(RateSearch, WithoutAnOptimizerItSaysWhatATrainingSays) {
  EXPECT_THAT(
      [] {
        find_learning_rate(quickstart({"train_config.optimizer={}"}), {.device = "cpu", .use_fake_data = true}, 20);
      },
      ThrowsMessage<ConfigError>(HasSubstr("no optimizer")));
}

TEST(RateSearch, EndsWhereLossesAreNoNumbersFromTheStart) {
  EXPECT_THAT(
      [] {
        find_learning_rate(quickstart({"model.ssd.loss.classification_weight=3e38"}),
                           {.device = "cpu", .use_fake_data = true}, 20);
      },
      ThrowsMessage<DivergedError>(HasSubstr("the learning rate is not what is wrong")));
}

}  // namespace
}  // namespace osprey::train
