#include <gtest/gtest.h>

#include <cmath>

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
      const at::Tensor values = testing::tensor(c.at("lr"), at::kDouble);
      for (size_t i = 0; i < steps.size(); ++i) {
        const double expected = values[static_cast<int64_t>(i)].item<double>(), got = rate->at(steps[i]);
        // Near the end of a cosine 1 + cos cancels: one float32 step of the cosine is 6e-8 of the base rate.
        const bool agree = std::isfinite(expected) ? std::abs(got - expected) <= 1e-5 * expected + 1e-8
                                                   : got == expected || (std::isnan(got) && std::isnan(expected));
        EXPECT_TRUE(agree) << c.at("name") << " at step " << steps[i] << ": " << got << ", expected " << expected;
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace osprey::optim
