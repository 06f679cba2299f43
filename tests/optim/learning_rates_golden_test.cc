#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"
#include "support/golden.h"

namespace osprey::optim {
namespace {

TEST(LearningRate, FollowsTheOriginalStepByStep) {
  int cases = 0;
  for (const auto& path : testing::golden_files("learning_rates.json")) {
    const auto file = testing::read_json(path);
    for (const auto& c : file.at("cases")) {
      const auto rate =
          build_learning_rate(config::parse<proto::LearningRate>(c.at("config").get<std::string>()).node());
      const auto steps = c.at("steps").get<std::vector<int64_t>>();
      ASSERT_EQ(steps.size(), c.at("lr").size());
      for (size_t i = 0; i < steps.size(); ++i) {
        const double expected = c.at("lr")[i];
        // Near the end of a cosine 1 + cos cancels: one float32 step of the cosine is 6e-8 of the base rate.
        EXPECT_NEAR(rate->at(steps[i]), expected, 1e-5 * expected + 1e-8) << c.at("name") << " at step " << steps[i];
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace osprey::optim
