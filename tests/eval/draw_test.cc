#include "osprey/eval/draw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace osprey::eval {
namespace {

at::Tensor grey(int64_t height, int64_t width) { return at::full({height, width, 3}, 90, at::kByte); }

std::array<uint8_t, 3> at_pixel(const at::Tensor& image, int64_t y, int64_t x) {
  const uint8_t* p = image.const_data_ptr<uint8_t>() + (y * image.size(1) + x) * 3;
  return {p[0], p[1], p[2]};
}

TEST(Draw, ABoxHasItsClassColourOnItsEdgesAndLeavesTheRestAlone) {
  const at::Tensor before = grey(100, 200);
  const at::Tensor after = draw_boxes(before, {{.box = {0.2f, 0.25f, 0.8f, 0.75f}, .class_index = 3}});
  EXPECT_EQ(at_pixel(after, 50, 50), class_color(3));   // left edge: x = 0.25 * 200
  EXPECT_EQ(at_pixel(after, 80, 100), class_color(3));  // lower edge: y = 0.8 * 100
  EXPECT_EQ(at_pixel(after, 50, 100), (std::array<uint8_t, 3>{90, 90, 90}));
  EXPECT_TRUE(at::equal(before, grey(100, 200)));  // the picture given is not touched
}

TEST(Draw, WeakBoxesAndThoseBeyondTheLimitAreLeftOut) {
  const DrawnBox strong{.box = {0.2f, 0.2f, 0.8f, 0.8f}, .score = 0.9},
      weak{.box = {0.2f, 0.2f, 0.8f, 0.8f}, .score = 0.1};
  EXPECT_TRUE(at::equal(draw_boxes(grey(50, 50), {weak}), grey(50, 50)));
  EXPECT_TRUE(at::equal(draw_boxes(grey(50, 50), {strong}, {.max_boxes = 0}), grey(50, 50)));
  EXPECT_FALSE(at::equal(draw_boxes(grey(50, 50), {weak, strong}), grey(50, 50)));
}

TEST(Draw, BoxesOutsideThePictureAndTinyPicturesAreHarmless) {
  const DrawnBox wild{.box = {-3, NAN, 7, 1e9f}, .label = "a long label that does not fit", .score = 1};
  for (int64_t size : {1, 2, 9, 40}) EXPECT_EQ(draw_boxes(grey(size, size), {wild}).size(0), size);
  EXPECT_EQ(draw_boxes(grey(0, 0), {wild}).numel(), 0);
}

TEST(Draw, ColoursOfTheFirstClassesDiffer) {
  std::set<std::array<uint8_t, 3>> colours;
  for (int64_t c = 0; c < 90; ++c) colours.insert(class_color(c));
  EXPECT_EQ(colours.size(), 90u);
}

TEST(Draw, PicturesStandBesideEachOther) {
  const at::Tensor both = side_by_side(grey(10, 20), grey(10, 20));
  EXPECT_EQ(both.size(0), 10);
  EXPECT_GE(both.size(1), 40);
  EXPECT_THROW(side_by_side(grey(10, 20), grey(11, 20)), c10::Error);
  EXPECT_THROW(draw_boxes(at::zeros({10, 20}), {}), c10::Error);
}

TEST(Draw, ResizingKeepsAnEvenPictureEven) {
  EXPECT_TRUE(at::equal(resize_for_view(grey(10, 20), 33, 7), grey(33, 7)));
}

}  // namespace
}  // namespace osprey::eval
