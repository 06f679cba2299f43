#include "osprey/losses/random_example_sampler.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Of two images with 100 anchors each: the first has 3 positives, the second none; the last 10 are no candidates, and
/// one of these would be positive.
struct Anchors {
  at::Tensor candidates = at::arange(100).lt(90).expand({2, 100}).contiguous();
  at::Tensor positives = at::zeros({2, 100}, at::kBool);
  Anchors() {
    for (const int64_t place : {7, 20, 89, 95}) positives[0][place] = true;
  }
};

at::Tensor keys(std::initializer_list<int64_t> values) { return at::tensor(values); }

TEST(RandomExampleSampler, KeepsAllPositivesAndTheWantedShareOfOthers) {
  const Anchors anchors;
  const at::Tensor negatives = anchors.candidates.logical_and(anchors.positives.logical_not());
  for (const auto& [fraction, wanted] : {std::pair{1.f, 0}, {0.5f, 3}, {0.25f, 9}, {0.4f, 4}, {0.01f, 87}}) {
    const at::Tensor kept = RandomExampleSampler(fraction, 1)(anchors.candidates, anchors.positives, keys({1, 2}));
    EXPECT_EQ(kept[0].logical_and(negatives[0]).sum().item<int64_t>(), wanted) << fraction;
    EXPECT_EQ(kept[0].sum().item<int64_t>(), wanted + 3) << fraction;
    for (const int64_t place : {7, 20, 89}) EXPECT_TRUE(kept[0][place].item<bool>()) << fraction;
    EXPECT_FALSE(kept[1].any().item<bool>()) << "an image without positives keeps none";
  }
}

TEST(RandomExampleSampler, TheChoiceFollowsTheExampleAndTheSeed) {
  Anchors anchors;
  anchors.positives[1] = anchors.positives[0];
  const auto sample = [&](uint64_t seed, int64_t first, int64_t second) {
    return RandomExampleSampler(0.25f, seed)(anchors.candidates, anchors.positives, keys({first, second}));
  };
  const at::Tensor kept = sample(1, 5, 6);
  EXPECT_FALSE(kept[0].equal(kept[1]));
  EXPECT_TRUE(kept.equal(sample(1, 6, 5).flip(0)));
  EXPECT_FALSE(kept.equal(sample(2, 5, 6)));
}

TEST(RandomExampleSampler, AllOthersAreEquallyLikely) {
  // 4000 images of 1 positive and 20 others, of which 4 are kept: each of them 800 times, give or take 5 deviations
  // of 25.
  const int64_t images = 4000;
  at::Tensor positives = at::zeros({images, 21}, at::kBool);
  positives.select(1, 11).fill_(true);
  const at::Tensor kept = RandomExampleSampler(0.2f, 3)(at::ones_like(positives), positives, at::arange(images));
  const at::Tensor times = kept.sum(0);
  EXPECT_EQ(times[11].item<int64_t>(), images);
  for (int64_t i = 0; i < 21; ++i) {
    if (i == 11) continue;
    EXPECT_NEAR(times[i].item<int64_t>(), 800, 125) << "anchor " << i;
  }
}

TEST(RandomExampleSampler, AShareOfNothingIsRefused) {
  const auto build = [](const std::string& fraction) {
    return build_losses(config::parse<proto::Loss>("classification_loss { weighted_sigmoid {} } localization_loss { "
                                                   "weighted_smooth_l1 {} } random_example_sampler { "
                                                   "positive_sample_fraction: " +
                                                   fraction + " }")
                            .node(),
                        /*seed=*/1);
  };
  EXPECT_NE(build("0.5").sampler, nullptr);
  for (const char* fraction : {"0", "-1", "1.5", "nan"})
    EXPECT_THAT([&] { build(fraction); }, ThrowsMessage<ConfigError>(HasSubstr("must be in (0, 1]"))) << fraction;
}

}  // namespace
}  // namespace osprey::losses
