#include "osprey/losses/hard_example_miner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace osprey::losses {
namespace {

/// n boxes that do not overlap, in one image.
at::Tensor apart(int64_t n) {
  const at::Tensor low = at::arange(n, at::kFloat) / n;
  return at::stack({low, low, low + 0.5 / n, low + 0.5 / n}, 1).unsqueeze(0);
}

at::Tensor row(std::initializer_list<float> values) { return at::tensor(values).unsqueeze(0); }
at::Tensor matches(std::initializer_list<int64_t> values) { return at::tensor(values).unsqueeze(0); }

TEST(HardExampleMiner, GradientsReachOnlyTheKeptAnchors) {
  MinerOptions options;
  options.num_hard_examples = 2;
  options.rank = MinerOptions::Rank::kClassification;
  at::Tensor classification = row({1, 3, 2, 0}).requires_grad_(true);
  const MinedLosses mined =
      HardExampleMiner(options)(at::zeros({1, 4}), classification, apart(4), matches({-1, -1, -1, -1}));
  mined.classification.backward();
  EXPECT_TRUE(classification.grad().equal(row({0, 1, 1, 0})));
  EXPECT_EQ(mined.classification.item<float>(), 5);
  EXPECT_EQ(mined.num_negatives, 2);
  EXPECT_EQ(mined.num_positives, 0);
}

TEST(HardExampleMiner, AnImageWithoutPositivesKeepsOnlyTheMinimumOfNegatives) {
  MinerOptions options;
  options.max_negatives_per_positive = 3;
  EXPECT_EQ(
      HardExampleMiner(options)(row({4, 3, 2}), row({4, 3, 2}), apart(3), matches({-1, -1, -1})).selected[0].size(),
      0u);
  options.min_negatives_per_image = 2;
  EXPECT_EQ(HardExampleMiner(options)(row({4, 3, 2}), row({4, 3, 2}), apart(3), matches({-1, -1, -1})).selected[0],
            (std::vector<int64_t>{0, 1}));
}

TEST(HardExampleMiner, OfTwoEqualBoxesTheSmallerLossIsDropped) {
  at::Tensor boxes = apart(3);
  boxes[0][2] = boxes[0][0];
  const MinedLosses mined =
      HardExampleMiner(MinerOptions{})(row({1, 1, 2}), row({1, 1, 2}), boxes, matches({0, -1, -1}));
  EXPECT_EQ(mined.selected[0], (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(mined.num_positives, 0);  // a positive that suppression drops is lost, as in the original
}

TEST(HardExampleMiner, ALossThatIsNotFiniteShows) {
  const MinedLosses mined = HardExampleMiner(MinerOptions{})(row({1, 1}), row({NAN, 1}), apart(2), matches({-1, -1}));
  EXPECT_TRUE(mined.classification.isnan().item<bool>());
}

TEST(HardExampleMiner, NoAnchorsGiveZero) {
  const MinedLosses mined = HardExampleMiner(MinerOptions{})(at::zeros({2, 0}), at::zeros({2, 0}), at::zeros({2, 0, 4}),
                                                             at::zeros({2, 0}, at::kLong));
  EXPECT_EQ(mined.classification.item<float>(), 0);
  EXPECT_EQ(mined.selected.size(), 2u);
}

}  // namespace
}  // namespace osprey::losses
