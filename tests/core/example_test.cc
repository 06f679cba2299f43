#include "osprey/core/example.h"

#include <gtest/gtest.h>

namespace osprey {
namespace {

TEST(Example, SelectKeepsEveryListInStep) {
  Example example;
  example.boxes = {{0, 0, 1, 1}, {0, 0, .5f, .5f}, {.5f, .5f, 1, 1}};
  example.classes = {4, 5, 6};
  example.keypoints = at::arange(6, at::kFloat).reshape({3, 1, 2});
  select(example, {2, 0});
  EXPECT_EQ(example.boxes, (std::vector<Box>{{.5f, .5f, 1, 1}, {0, 0, 1, 1}}));
  EXPECT_EQ(example.classes, (std::vector<int64_t>{6, 4}));
  EXPECT_TRUE(example.weights.empty());
  EXPECT_TRUE(example.keypoints.equal(at::tensor({4., 5., 0., 1.}, at::kFloat).reshape({2, 1, 2})));
}

TEST(Example, SelectRefusesAnObjectThatIsNotThere) {
  Example example;
  example.boxes = {{0, 0, 1, 1}};
  EXPECT_THROW(select(example, {1}), c10::Error);
}

TEST(Example, AppendGivesEveryObjectOfEitherAPlaceInEveryList) {
  Example example, more;
  example.boxes = {{0, 0, 1, 1}, {0, 0, .5f, .5f}};
  example.classes = {4, 5};
  example.weights = {2, 3};
  example.area = {7, 8};
  example.masks = at::ones({2, 3, 3});
  more.boxes = {{.5f, .5f, 1, 1}};
  more.classes = {6};
  more.confidences = {.25f};
  more.is_crowd = {1};
  more.masks = at::zeros({1, 3, 3});
  append(example, more);
  EXPECT_EQ(example.boxes, (std::vector<Box>{{0, 0, 1, 1}, {0, 0, .5f, .5f}, {.5f, .5f, 1, 1}}));
  EXPECT_EQ(example.classes, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(example.weights, (std::vector<float>{2, 3, 1}));
  EXPECT_EQ(example.area, (std::vector<float>{7, 8, 0}));
  EXPECT_EQ(example.confidences, (std::vector<float>{1, 1, .25f}));
  EXPECT_EQ(example.is_crowd, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_TRUE(example.difficult.empty());
  EXPECT_EQ(example.masks.sum({1, 2}).numel(), 3);
  EXPECT_EQ(example.masks[2].sum().item<float>(), 0);
}

TEST(Example, AppendOfAndToNothingIsTheOther) {
  Example example, more;
  more.boxes = {{0, 0, 1, 1}};
  more.classes = {6};
  more.weights = {.5f};
  append(example, more);
  append(example, Example());
  EXPECT_EQ(example.boxes, more.boxes);
  EXPECT_EQ(example.weights, more.weights);
  EXPECT_TRUE(example.is_crowd.empty());
}

TEST(Example, AppendJoinsTheLabelsOfWholeImages) {
  Example example, more;
  example.image_classes = {1};
  more.image_classes = {2, 3};
  more.image_confidences = {1, 0};
  example.negative_classes = {5, 6};
  more.negative_classes = {6, 7};
  more.not_exhaustive_classes = {8};
  append(example, more);
  EXPECT_EQ(example.image_classes, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(example.image_confidences, (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(example.negative_classes, (std::vector<int64_t>{6})) << "in neither";
  EXPECT_EQ(example.not_exhaustive_classes, (std::vector<int64_t>{8}));
}

TEST(Example, AppendRefusesObjectsWithAndWithoutMasks) {
  Example example, more;
  more.masks = at::zeros({0, 3, 3});
  EXPECT_THROW(append(example, more), c10::Error);
}

}  // namespace
}  // namespace osprey
