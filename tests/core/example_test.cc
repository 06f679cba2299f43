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

}  // namespace
}  // namespace osprey
