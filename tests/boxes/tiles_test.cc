#include "osprey/boxes/tiles.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <utility>

#include "osprey/base/error.h"

namespace osprey::boxes {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Detection found(Box box, float score, int64_t class_id = 1) { return {box, score, class_id, ""}; }

TEST(Tiles, CoverThePictureEvenlyAndEndAtItsSides) {
  // 1000 wide, tiles of 400 that share a fifth: at most 320 further each, so two steps of 300; one row is enough.
  EXPECT_THAT(tiles_px(400, 1000, {.side_px = 400, .overlap = 0.2}),
              ElementsAre(Box{0, 0, 400, 400}, Box{0, 300, 400, 700}, Box{0, 600, 400, 1000}));
  EXPECT_THAT(tiles_px(401, 300, {.side_px = 400, .overlap = 0}), ElementsAre(Box{0, 0, 400, 300}, Box{1, 0, 401, 300}))
      << "a tile is no wider than the picture, and none is smaller than the others";
  EXPECT_THAT(tiles_px(20, 30, {.side_px = 400}), ElementsAre(Box{0, 0, 20, 30}));
  EXPECT_EQ(tiles_px(1, 3, {.side_px = 1, .overlap = 0.9}).size(), 3u) << "a step is at least a pixel";
}

TEST(Tiles, EveryPixelIsSeenAndNeighboursShareWhatIsAskedFor) {
  for (const int64_t side : {7, 32, 100})
    for (const double overlap : {0.0, 0.25, 0.5, 0.9})
      for (int64_t length = 1; length < 400; length += 13) {
        const std::vector<Box> tiles = tiles_px(1, length, {.side_px = side, .overlap = overlap});
        EXPECT_EQ(tiles.front().xmin, 0);
        EXPECT_EQ(tiles.back().xmax, length);
        for (size_t i = 1; i < tiles.size(); ++i) {
          const float shared = tiles[i - 1].xmax - tiles[i].xmin;
          EXPECT_GE(shared, std::min<double>(overlap * static_cast<double>(side), static_cast<double>(side) - 1))
              << side << " " << overlap << " " << length;
          EXPECT_LT(tiles[i - 1].xmin, tiles[i].xmin);
        }
      }
}

TEST(Tiles, OptionsOutOfRangeAreErrors) {
  EXPECT_THROW(tiles_px(10, 10, {.side_px = 0}), c10::Error);
  EXPECT_THROW(tiles_px(10, 10, {.side_px = 5, .overlap = 0.95}), c10::Error);
  EXPECT_THROW(tiles_px(10, 10, {.side_px = 5, .overlap = std::nan("")}), c10::Error);
  EXPECT_THROW(tiles_px(0, 10, {.side_px = 5}), c10::Error);
}

TEST(Tiles, MoreThanAnyoneWaitsForAreRefused) {
  EXPECT_EQ(tiles_px(250, 400, {.side_px = 1, .overlap = 0}).size(), 100'000u);
  EXPECT_THAT([] { tiles_px(3000, 4000, {.side_px = 1, .overlap = 0}); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("4000 x 3000"), HasSubstr("12000000 tiles of 1 pixel"))));
}

TEST(MergeViews, BoxesBecomeFractionsOfThePicture) {
  const auto merged = merge_views({{{0.5f, 0.25f, 1, 0.75f}, {found({0, 0.5f, 1, 1}, 0.5f)}}});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].box, (Box{0.5f, 0.5f, 1, 0.75f}));
}

TEST(MergeViews, ABoxThatATileCutsGivesWayToTheWholeOneWhateverTheScores) {
  // Two tiles, left and right, that share the middle fifth. The object lies in x from 0.45 to 0.65 of the picture: the
  // left tile (0 to 0.6) sees it up to its side, the right one (0.4 to 1) sees all of it.
  const TileView left{{0, 0, 1, 0.6f}, {found({0.2f, 0.75f, 0.4f, 1}, 0.9f)}},
      right{{0, 0.4f, 1, 1}, {found({0.2f, 1 / 12.f, 0.4f, 5 / 12.f}, 0.6f)}};
  const auto merged = merge_views({left, right});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].score, 0.6f);
  EXPECT_NEAR(merged[0].box.xmax, 0.65f, 1e-6);
  // At a side of the picture nothing is cut: there the better score counts.
  const TileView whole{{0, 0, 1, 1}, {found({0.2f, 0.45f, 0.4f, 1}, 0.7f)}},
      end{{0, 0.4f, 1, 1}, {found({0.2f, 1 / 12.f, 0.4f, 1}, 0.8f)}};
  EXPECT_EQ(merge_views({whole, end}).front().score, 0.8f);
}

TEST(MergeViews, ACutBoxGivesWayToAWholeOneOfAnyClassThatCoversItButNotToOneInsideIt) {
  // The right end of the left tile is at 0.6: what it sees of an object up to there is taken for one of class 2.
  const TileView left{{0, 0, 1, 0.6f}, {found({0.2f, 0.75f, 0.4f, 1}, 0.9f, 2)}};
  const TileView whole{{0, 0, 1, 1}, {found({0.2f, 0.45f, 0.4f, 0.65f}, 0.6f)}};
  const auto merged = merge_views({left, whole});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].class_id, 1);
  const TileView inside{{0, 0, 1, 1}, {found({0.3f, 0.5f, 0.35f, 0.55f}, 0.95f)}};
  EXPECT_EQ(merge_views({left, inside}).size(), 2u) << "something small on something large";
}

TEST(MergeViews, OnlyOtherViewsOfTheSameClassGiveWay) {
  const Box box{0.2f, 0.2f, 0.4f, 0.4f};
  const TileView one{{0, 0, 1, 1}, {found(box, 0.9f), found(box, 0.8f), found(box, 0.7f, 2)}};
  EXPECT_EQ(merge_views({one}).size(), 3u) << "the model has suppressed what it saw";
  const auto merged = merge_views({one, {{0, 0, 1, 1}, {found(box, 0.95f, 3), found(box, 0.85f)}}});
  ASSERT_EQ(merged.size(), 4u);
  EXPECT_EQ(merged[0].class_id, 3);
  for (const Detection& detection : merged) EXPECT_NE(detection.score, 0.85f);
  // Half of the smaller one and no more: side by side.
  const TileView other{{0, 0, 1, 1}, {found({0.2f, 0.3f, 0.4f, 0.5f}, 0.5f)}};
  EXPECT_EQ(merge_views({one, other}).size(), 4u);
}

/// Of all pairs, by the words of `merge_views`.
std::vector<Detection> plainly_merged(const std::vector<TileView>& views) {
  struct One {
    Detection detection;
    size_t view;
    bool cut;
  };
  std::vector<One> all, kept;
  for (size_t v = 0; v < views.size(); ++v)
    for (Detection found : views[v].found) {
      const Box in = found.box, part = views[v].place;
      const bool cut = (in.ymin < 0.01f && part.ymin > 0) || (in.xmin < 0.01f && part.xmin > 0) ||
                       (in.ymax > 0.99f && part.ymax < 1) || (in.xmax > 0.99f && part.xmax < 1);
      found.box = {part.ymin + in.ymin * part.height(), part.xmin + in.xmin * part.width(),
                   part.ymin + in.ymax * part.height(), part.xmin + in.xmax * part.width()};
      all.push_back({found, v, cut});
    }
  std::ranges::stable_sort(all, [](const One& a, const One& b) {
    return std::pair(a.cut, -a.detection.score) < std::pair(b.cut, -b.detection.score);
  });
  for (const One& one : all) {
    const bool hidden = std::ranges::any_of(kept, [&](const One& other) {
      const Box &a = one.detection.box, &b = other.detection.box;
      const bool part_of_whole = one.cut && !other.cut;
      const float height = std::max(0.0f, std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin)),
                  width = std::max(0.0f, std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin));
      return one.view != other.view && (part_of_whole || one.detection.class_id == other.detection.class_id) &&
             height * width > 0.5f * (part_of_whole ? a.area() : std::min(a.area(), b.area()));
    });
    if (!hidden) kept.push_back(one);
  }
  std::vector<Detection> result;
  for (const One& one : kept) result.push_back(one.detection);
  std::ranges::stable_sort(result, [](const Detection& a, const Detection& b) { return a.score > b.score; });
  return result;
}

TEST(MergeViews, OfManyViewsIsThatOfAllPairs) {
  std::mt19937 random(3);
  const auto draw = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  for (int round = 0; round < 20; ++round) {
    std::vector<TileView> views;
    for (const Box& tile : tiles_px(300, 400, {.side_px = 100, .overlap = 0.25}))
      views.push_back({{tile.ymin / 300, tile.xmin / 400, tile.ymax / 300, tile.xmax / 400}, {}});
    views.push_back({{0, 0, 1, 1}, {}});
    size_t count = 0;
    for (TileView& view : views)
      for (int i = 0; i < 12; ++i, ++count) {
        // Some reach over the side of their part, as boxes that nobody has clipped do.
        const float y = draw(-0.1f, 0.8f), x = draw(-0.1f, 0.8f);
        view.found.push_back({{y, x, y + draw(0.05f, 0.6f), x + draw(0.05f, 0.6f)},
                              draw(0, 1),
                              std::uniform_int_distribution<int64_t>(1, 2)(random),
                              ""});
      }
    const std::vector<Detection> merged = merge_views(views), expected = plainly_merged(views);
    ASSERT_EQ(merged.size(), expected.size());
    EXPECT_LT(merged.size(), count);
    for (size_t i = 0; i < merged.size(); ++i) {
      EXPECT_EQ(merged[i].box, expected[i].box) << i;
      EXPECT_EQ(merged[i].score, expected[i].score) << i;
    }
  }
}

}  // namespace
}  // namespace osprey::boxes
