#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>

#include "osprey/boxes/builder.h"
#include "osprey/boxes/geometry.h"
#include "train/anchor_fit.h"
#include "train/anchor_numbers.h"
#include "train/anchor_proposal.h"
#include "train/box_sample.h"

namespace osprey::train {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSsd = "ssd_anchor_generator { aspect_ratios: 1 aspect_ratios: 2 aspect_ratios: 0.5 }";
constexpr const char* kPyramid =
    "multiscale_anchor_generator { min_level: 4 max_level: 7 aspect_ratios: 1 aspect_ratios: 2 aspect_ratios: 0.5 }";
const AnchorPlaces kSsdPlaces{{{19, 19}, {10, 10}, {5, 5}, {3, 3}, {2, 2}, {1, 1}}, {300, 300}, 0.5f};
const AnchorPlaces kPyramidPlaces{{{16, 32}, {8, 16}, {4, 8}, {2, 4}}, {256, 512}, 0.5f};

proto::AnchorGenerator parsed(const std::string& text) {
  proto::AnchorGenerator result;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &result)) << text;
  return result;
}

std::unique_ptr<boxes::AnchorGenerator> built(const proto::AnchorGenerator& generator) {
  return boxes::build_anchor_generator({generator});
}

/// Boxes anywhere with sides, in fractions, from a half to twice those given.
std::vector<Box> some_boxes(int64_t count, double height, double width) {
  at::manual_seed(7);
  std::vector<Box> result;
  const at::Tensor random = at::rand({count, 4}, at::kDouble);
  for (int64_t i = 0; i < count; ++i) {
    const auto* row = random[i].const_data_ptr<double>();
    const double tall = height * std::exp2(2 * row[0] - 1), wide = width * std::exp2(2 * row[1] - 1);
    const double y = row[2] * (1 - tall), x = row[3] * (1 - wide);
    result.push_back(
        {static_cast<float>(y), static_cast<float>(x), static_cast<float>(y + tall), static_cast<float>(x + wide)});
  }
  return result;
}

int64_t count_reached(const proto::AnchorGenerator& generator, const AnchorPlaces& places,
                      const std::vector<Box>& boxes) {
  const AnchorReach reach = anchor_reach_of(*built(generator), places);
  return std::ranges::count_if(boxes, [&](const Box& box) { return reach.reaches(box); });
}

TEST(BoxSample, IsTheSameInWhateverOrderTheBoxesCome) {
  BoxSample forwards(20), backwards(20), all(200);
  for (int i = 0; i < 100; ++i) {
    forwards.add(i / 3, i % 3, {0, 0, 1, static_cast<float>(i)});
    all.add(i / 3, i % 3, {0, 0, 1, static_cast<float>(i)});
    const int j = 99 - i;
    backwards.add(j / 3, j % 3, {0, 0, 1, static_cast<float>(j)});
  }
  EXPECT_EQ(forwards.boxes().size(), 20);
  EXPECT_EQ(forwards.boxes(), backwards.boxes());
  EXPECT_EQ(all.boxes().size(), 100);
  float sum = 0;
  for (const Box& box : forwards.boxes()) sum += box.xmax;
  EXPECT_NEAR(sum / 20, 49.5, 20) << "from all parts of the data";  // three times the deviation of such a mean, 6.5
}

TEST(AnchorFit, CountsWhatAllAnchorsReach) {
  const std::vector<Box> boxes = some_boxes(500, 0.15, 0.08);
  at::Tensor rows = at::empty({500, 4});
  for (int64_t i = 0; i < 500; ++i) {
    const Box& box = boxes[static_cast<size_t>(i)];
    rows[i] = at::tensor({box.ymin, box.xmin, box.ymax, box.xmax});
  }
  const auto check = [&](const char* text, const AnchorPlaces& places) {
    const proto::AnchorGenerator generator = parsed(text);
    const auto [reached, overlap] = AnchorFit(*built(generator), places, boxes).of(*built(generator));
    EXPECT_EQ(reached, count_reached(generator, places, boxes));
    const at::Tensor anchors =
        built(generator)->generate(places.feature_maps, places.input_size[0], places.input_size[1]);
    EXPECT_NEAR(overlap, boxes::iou(rows, anchors).amax(1).sum(at::kDouble).item<double>(), 500 * 1e-5);
    EXPECT_GT(reached, 50);
    EXPECT_LT(reached, 450);
  };
  check(kSsd, kSsdPlaces);
  check(kPyramid, kPyramidPlaces);
}

TEST(SearchAnchors, FindsScalesAndRatiosOfTheBoxesAndSaysWhatTheyReach) {
  for (const auto& [text, places] : {std::pair(kSsd, kSsdPlaces), std::pair(kPyramid, kPyramidPlaces)}) {
    const std::vector<Box> tall = some_boxes(400, 0.3, 0.06);
    const proto::AnchorGenerator now = parsed(text);
    const std::optional<AnchorSearch> search = search_anchors(now, places, tall);
    ASSERT_TRUE(search && search->proposal) << text;
    EXPECT_EQ(search->boxes, 400);
    EXPECT_EQ(search->reached, count_reached(now, places, tall));
    EXPECT_GT(search->proposal->reached, search->reached + 100);
    const std::string& pasted = search->proposal->anchor_generator;
    ASSERT_THAT(pasted, ::testing::StartsWith("anchor_generator {\n"));
    const proto::AnchorGenerator proposed = parsed(pasted.substr(18, pasted.size() - 20));
    EXPECT_EQ(count_reached(proposed, places, tall), search->proposal->reached);
    EXPECT_EQ(built(proposed)->num_anchors_per_location(), built(now)->num_anchors_per_location());
    EXPECT_EQ(search_anchors(now, places, tall)->proposal->anchor_generator, pasted) << "the same again";
    const auto again = search_anchors(proposed, places, tall);
    EXPECT_FALSE(again->proposal) << "what was found is not improved by as much once more";
  }
}

TEST(SearchAnchors, LeavesAnchorsThatFit) {
  const proto::AnchorGenerator now = parsed(kSsd);
  const at::Tensor anchors = built(now)->generate(kSsdPlaces.feature_maps, 300, 300);
  std::vector<Box> boxes;
  for (int64_t i = 0; i < anchors.size(0); i += 7) {
    const auto* row = anchors[i].const_data_ptr<float>();
    boxes.push_back({row[0], row[1], row[2], row[3]});
  }
  const std::optional<AnchorSearch> search = search_anchors(now, kSsdPlaces, boxes);
  ASSERT_TRUE(search);
  EXPECT_EQ(search->reached, search->boxes);
  EXPECT_FALSE(search->proposal);
}

TEST(SearchAnchors, DoesNotGuessFromFewBoxesOrForOtherGenerators) {
  EXPECT_TRUE(search_anchors(parsed(kSsd), kSsdPlaces, some_boxes(100, 0.3, 0.06)));
  EXPECT_FALSE(search_anchors(parsed(kSsd), kSsdPlaces, some_boxes(99, 0.3, 0.06)));
  const proto::AnchorGenerator grid = parsed("grid_anchor_generator { scales: 1 aspect_ratios: 1 }");
  EXPECT_FALSE(search_anchors(grid, {{{16, 16}}, {256, 256}, 0.5f}, some_boxes(200, 0.3, 0.06)));
}

TEST(AnchorNumbers, AreThoseThatTheGeneratorSays) {
  const auto listed =
      parsed("ssd_anchor_generator { num_layers: 2 scales: 0.1 scales: 0.5 scales: 0.9 aspect_ratios: 3 }");
  EXPECT_THAT(numbers_of(listed).scales, ElementsAre(::testing::DoubleNear(0.1, 1e-6), 0.5))
      << "the third is no layer's own";
  const auto changed = with_numbers(listed, {{0.12345, 0.25}, {0.333333}}).ssd_anchor_generator();
  EXPECT_THAT(changed.scales(), ElementsAre(0.123f, 0.25f, 0.9f));
  EXPECT_THAT(changed.aspect_ratios(), ElementsAre(0.333f));

  // 0.2, 0.575 and 0.95, as the formula of the config language has them.
  const auto others = as_many_anchors(parsed("ssd_anchor_generator { num_layers: 3 aspect_ratios: 1 }"));
  ASSERT_EQ(others.size(), 1);
  EXPECT_THAT(others[0].ssd_anchor_generator().scales(), ElementsAre(0.2f, 0.575f, 0.95f));

  // Six anchors of a cell: 2 scales by 3 ratios, else 1 by 6 or 3 by 2.
  std::vector<std::pair<int, int>> shapes;
  for (const auto& generator : as_many_anchors(parsed(kPyramid)))
    shapes.emplace_back(generator.multiscale_anchor_generator().scales_per_octave(),
                        generator.multiscale_anchor_generator().aspect_ratios_size());
  EXPECT_THAT(shapes, ElementsAre(std::pair(1, 6), std::pair(3, 2)));
}

TEST(AnchorNumbers, OutsideTheirBoundsAreNotProposed) {
  AnchorNumbers numbers = numbers_of(parsed(kSsd));
  EXPECT_TRUE(numbers.in_bounds());
  numbers.scales = {0.5, 0.2};
  EXPECT_FALSE(numbers.in_bounds()) << "coarser maps have larger anchors";
  numbers.scales = {0.5, 1.1};
  EXPECT_FALSE(numbers.in_bounds());
  numbers.scales = {0.5, 0.9};
  numbers.aspect_ratios = {1, 11};
  EXPECT_FALSE(numbers.in_bounds());
  numbers = numbers_of(parsed(kPyramid));
  numbers.scales = {0.9};
  EXPECT_FALSE(numbers.in_bounds()) << "smaller than a cell";
}

}  // namespace
}  // namespace osprey::train
