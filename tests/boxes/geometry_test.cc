#include "osprey/boxes/geometry.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/golden.h"

namespace osprey::boxes {
namespace {

using osprey::testing::expect_close;

at::Tensor box(float ymin, float xmin, float ymax, float xmax) {
  return at::tensor({ymin, xmin, ymax, xmax}).unsqueeze(0);
}
float only(const at::Tensor& t) { return t.item<float>(); }

// Two squares of area 4 that share a square of area 1: union 7, hull 9.
const at::Tensor& first() {
  static const at::Tensor t = box(0, 0, 2, 2);
  return t;
}
const at::Tensor& second() {
  static const at::Tensor t = box(1, 1, 3, 3);
  return t;
}

TEST(Geometry, OverlapOfTwoSquares) {
  EXPECT_FLOAT_EQ(only(area(first())), 4);
  EXPECT_FLOAT_EQ(only(intersection(first(), second())), 1);
  EXPECT_FLOAT_EQ(only(iou(first(), second())), 1.0f / 7);
  EXPECT_FLOAT_EQ(only(ioa(first(), second())), 1.0f / 4);
  EXPECT_FLOAT_EQ(only(giou(first(), second())), 1.0f / 7 - 2.0f / 9);
}

TEST(Geometry, DistancesOfTwoSquares) {
  EXPECT_FLOAT_EQ(only(l1(first(), second())), 2);                // the centres are 1 apart in y and in x
  EXPECT_FLOAT_EQ(only(squared_distance(first(), second())), 4);  // all four coordinates differ by 1
}

TEST(Geometry, BoxesWithoutAreaOverlapNothing) {
  const at::Tensor point = box(1, 1, 1, 1);
  EXPECT_EQ(only(iou(point, point)), 0);
  EXPECT_TRUE(std::isnan(only(ioa(first(), point))));  // 0 / 0, as in the original
  EXPECT_EQ(only(giou(point, point)), 0);
}

TEST(Geometry, NoBoxesGiveAnEmptyMatrix) {
  EXPECT_EQ(iou(at::zeros({0, 4}), at::zeros({7, 4})).sizes(), at::IntArrayRef({0, 7}));
  EXPECT_EQ(iou(at::zeros({2, 3, 4}), at::zeros({7, 4})).sizes(), at::IntArrayRef({2, 3, 7}));
}

TEST(Geometry, CenterAndSizeComeBackAsCorners) {
  const at::Tensor boxes = box(0.25f, 0.5f, 0.75f, 0.625f);
  expect_close(to_center_size(boxes), at::tensor({0.5f, 0.5625f, 0.5f, 0.125f}).unsqueeze(0), 0, 1e-7,
               "center and size");
  expect_close(to_corners(to_center_size(boxes)), boxes, 0, 1e-7, "corners");
}

TEST(Geometry, ClippingMovesCornersToTheWindow) {
  const at::Tensor window = at::tensor({0.0f, 0.0f, 1.0f, 1.0f});
  expect_close(clip_to_window(box(-1, 0.5f, 0.5f, 2), window), box(0, 0.5f, 0.5f, 1), 0, 0, "partly outside");
  expect_close(clip_to_window(box(2, 2, 3, 3), window), box(1, 1, 1, 1), 0, 0, "outside");
}

TEST(Geometry, TheWindowBecomesTheUnitSquare) {
  const at::Tensor window = at::tensor({0.0f, 0.5f, 0.5f, 1.0f});
  expect_close(change_coordinate_frame(window.unsqueeze(0), window), box(0, 0, 1, 1), 0, 0, "window");
  expect_close(change_coordinate_frame(box(0.25f, 0.75f, 0.5f, 1), window), box(0.5f, 0.5f, 1, 1), 0, 0, "quarter");
}

TEST(Geometry, EachImageHasItsWindow) {
  const at::Tensor boxes = at::tensor({-1.0f, -1.0f, 9.0f, 9.0f}).expand({2, 3, 4});
  const at::Tensor windows = at::tensor({0.0f, 0.0f, 1.0f, 2.0f, 0.0f, 0.0f, 3.0f, 4.0f}).view({2, 4});
  expect_close(clip_to_window(boxes, windows), windows.unsqueeze(1).expand({2, 3, 4}), 0, 0, "clipped");
}

TEST(Geometry, OverlapGradientsAreFiniteWhereNothingOverlaps) {
  const at::Tensor far = box(5, 5, 5, 5).requires_grad_();
  giou(far, first()).sum().backward();
  EXPECT_TRUE(far.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace osprey::boxes
