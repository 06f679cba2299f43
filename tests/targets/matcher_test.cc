#include "osprey/targets/matcher.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/config/parse.h"
#include "osprey/core/targets.h"
#include "osprey/protos/matcher.pb.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/builder.h"

namespace osprey::targets {
namespace {

std::unique_ptr<Matcher> matcher(const std::string& text) {
  const auto parsed = config::parse<proto::Matcher>(text, "test");
  return build_matcher(parsed.node());
}

template <class M, class Family>
void every_choice_is_registered(const char* name) {
  const auto* oneof = M::descriptor()->FindOneofByName(name);
  for (int i = 0; i < oneof->field_count(); ++i) {
    const auto* field = oneof->field(i);
    if (field->message_type()->full_name() == "google.protobuf.Any") continue;
    EXPECT_TRUE(Family::Registry::instance().has(field->message_type()->full_name())) << field->name();
  }
}

TEST(Matcher, EveryChoiceHasAnImplementation) { every_choice_is_registered<proto::Matcher, Matcher>("matcher_oneof"); }

TEST(RegionSimilarity, EveryChoiceHasAnImplementation) {
  every_choice_is_registered<proto::RegionSimilarityCalculator, RegionSimilarity>("region_similarity");
}

TEST(RegionSimilarity, ThresholdedIouGivesTheScoreOfTheBox) {
  const auto parsed =
      config::parse<proto::RegionSimilarityCalculator>("thresholded_iou_similarity { iou_threshold: 0.5 }");
  const auto similarity = build_region_similarity(parsed.node());
  const at::Tensor boxes = at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).view({1, 4});
  const at::Tensor anchors =
      at::tensor({0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0.5f, 1.0f}).view({2, 4});  // IoU 1 and 0.5
  EXPECT_TRUE(
      at::equal(similarity->compare(boxes, anchors, at::tensor({0.7f})), at::tensor({0.7f, 0.0f}).view({1, 2})));
  EXPECT_TRUE(at::equal(similarity->compare(boxes, anchors), at::tensor({1.0f, 0.0f}).view({1, 2})));
}

TEST(BipartiteMatcher, TakesTheBestPairsOneByOne) {
  // 0.9 goes first to (1, 0); row 0 wanted anchor 0 too and falls back to 0.5 at anchor 2.
  const at::Tensor similarity = at::tensor({0.8f, 0.1f, 0.5f, 0.9f, 0.2f, 0.3f}).view({2, 3});
  const at::Tensor match = matcher("bipartite_matcher {}")->match(similarity);
  EXPECT_TRUE(at::equal(match, at::tensor({1, -1, 0}, at::kLong)));
}

TEST(BipartiteMatcher, RowsThatAreOffAndRowsWithoutAFreeAnchorGetNothing) {
  const at::Tensor similarity = at::tensor({0.8f, 0.9f, 0.7f}).view({3, 1});
  const at::Tensor match = matcher("bipartite_matcher {}")->match(similarity, at::tensor({1, 0, 1}).to(at::kBool));
  EXPECT_TRUE(at::equal(match, at::tensor({0}, at::kLong)));
}

TEST(Matcher, NoBoxesAreAllBackground) {
  for (const char* text : {"bipartite_matcher {}", "argmax_matcher {}",
                           "argmax_matcher { ignore_thresholds: true force_match_for_each_row: true }"})
    EXPECT_TRUE(at::equal(matcher(text)->match(at::zeros({0, 3})), at::full({3}, Match::kBackground, at::kLong)))
        << text;
}

TEST(ArgMaxMatcher, ThresholdsThatContradictAreReportedWithTheirField) {
  EXPECT_THAT([] { matcher("argmax_matcher { unmatched_threshold: 0.6 }"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("argmax_matcher.unmatched_threshold")));
  EXPECT_THAT([] { matcher("argmax_matcher { negatives_lower_than_unmatched: false }"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("negatives_lower_than_unmatched")));
  EXPECT_NO_THROW(matcher("argmax_matcher { ignore_thresholds: true unmatched_threshold: 0.6 }"));
}

}  // namespace
}  // namespace osprey::targets
