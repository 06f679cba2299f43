#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "augmentation_support.h"
#include "data/augmentations/autoaugment_operations.h"
#include "data/augmentations/level_ops.h"
#include "data/augmentations/warp.h"
#include "osprey/base/error.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The checksums of this file are those of pictures that TensorFlow 2.15 made from formula_image(20, 30), unless another
// size is named.

// Three ranges of levels, so that there is something to stretch: level * 3, 5 or 6 / 9 + 20.
at::Tensor dull_image() {
  return (formula_image(20, 30).to(at::kInt) * at::tensor({3, 5, 6}, at::kInt)).floor_divide(9).add(20).to(at::kByte);
}

void run(const PolicyStep& step, const std::vector<double>& script, Example& example) {
  ScriptedDraws draws(script);
  policy_operation(step)(example, draws);
  EXPECT_TRUE(draws.used_up()) << step.operation;
}

Example large_example() {
  Example example;
  example.image = formula_image(120, 200);
  example.boxes = {{0.11f, 0.23f, 0.37f, 0.61f}, {0, 0, 1, 1}, {0.55f, 0.7f, 0.9f, 0.97f}, {0.02f, 0.9f, 0.3f, 0.99f}};
  example.classes = {0, 1, 2, 3};
  example.weights = {1, 1, 1, 1};
  return example;
}

TEST(LevelOps, TablesOfLevelsAreThoseOfTensorFlow) {
  const at::Tensor image = formula_image(20, 30);
  EXPECT_EQ(checksum(image), 10932659);
  EXPECT_EQ(checksum(dull_image()), 7332144);
  // min, max, and a cast to uint8.
  EXPECT_EQ(checksum(auto_contrast(dull_image())), 10863956);
  // tf.histogram_fixed_width, cumsum and gather.
  EXPECT_EQ(checksum(equalize(dull_image())), 12623552);
  // tf.bitwise shifts; those by 8 bits go as far as 7.
  EXPECT_EQ(checksum(posterize(image, 0)), 5534976);
  EXPECT_EQ(checksum(posterize(image, 2)), 8210752);
  EXPECT_EQ(checksum(posterize(image, 4)), 10263808);
  EXPECT_EQ(checksum(solarize(image, 153)), 5674409);
  EXPECT_EQ(checksum(solarize(image, 204)), 7468822);
  EXPECT_TRUE(at::equal(solarize(image, 256), image));
  EXPECT_TRUE(at::equal(solarize(image, 0), 255 - image));
  EXPECT_EQ(checksum(solarize_add(image, 22)), 11896193);
  EXPECT_EQ(checksum(solarize_add(image, 110)), 15750329);
}

TEST(LevelOps, EnhancementsAreThoseOfTensorFlow) {
  const at::Tensor image = formula_image(20, 30);
  const float weak = 0.46f, strong = 1.9f;  // levels 2 and 10
  // tf.image.rgb_to_grayscale.
  EXPECT_EQ(checksum(enhance_color(image, 0)), 10981862);
  EXPECT_EQ(checksum(enhance_color(image, weak)), 10913707);
  EXPECT_EQ(checksum(enhance_color(image, strong)), 10927085);
  EXPECT_EQ(checksum(enhance_brightness(image, weak)), 4987273);
  EXPECT_EQ(checksum(enhance_brightness(image, strong)), 16093505);
  EXPECT_EQ(checksum(enhance_contrast(image, weak)), 5081276);
  EXPECT_EQ(checksum(enhance_contrast(image, strong)), 16011549);
  // tf.nn.depthwise_conv2d.
  EXPECT_EQ(checksum(enhance_sharpness(image, 0)), 10885089);
  EXPECT_EQ(checksum(enhance_sharpness(image, weak)), 10880231);
  EXPECT_EQ(checksum(enhance_sharpness(image, strong)), 10979108);
  for (auto* enhance : {&enhance_color, &enhance_brightness, &enhance_contrast, &enhance_sharpness})
    EXPECT_TRUE(at::equal(enhance(image, 1), image));
}

TEST(LevelOps, ImagesOfOneLevelAndOfOnePixelStay) {
  const at::Tensor flat = at::full({9, 9, 3}, 77, at::kByte), pixel = at::full({1, 1, 3}, 77, at::kByte);
  for (const at::Tensor& image : {flat, pixel}) {
    EXPECT_TRUE(at::equal(auto_contrast(image), image));
    EXPECT_TRUE(at::equal(equalize(image), image));
  }
  EXPECT_TRUE(at::equal(enhance_sharpness(pixel, 1.9f), pixel));
  // 81 pixels, fewer than 255 of them below the highest level.
  const at::Tensor small = dull_image().slice(0, 0, 9).slice(1, 0, 9);
  EXPECT_TRUE(at::equal(equalize(small), small));
  EXPECT_THROW(equalize(at::zeros({4, 4, 1}, at::kByte)), c10::Error);
}

// tf.raw_ops.ImageProjectiveTransformV3, nearest, with 128 where an added channel of ones comes out as 0; the matrices
// of rotations are those of Keras' random rotation.
TEST(Warp, MovesPixelsAsTensorFlow) {
  const ImageSize size{20, 30};
  const auto moved = [&](const Warp& warp, float amount) {
    return checksum(warped(formula_image(20, 30), warp.map(amount, size), 128));
  };
  EXPECT_EQ(moved(kRotation, 18), 11052959);
  EXPECT_EQ(moved(kRotation, -24), 11053081);
  EXPECT_EQ(moved(kRotation, 30), 11006177);
  EXPECT_EQ(moved(kShearX, 0.06f), 10977685);
  EXPECT_EQ(moved(kShearX, -0.24f), 10915925);
  EXPECT_EQ(moved(kShearX, 0.3f), 10996499);
  EXPECT_EQ(moved(kShearY, 0.06f), 10898708);
  EXPECT_EQ(moved(kShearY, -0.24f), 10918527);
  EXPECT_EQ(moved(kShearY, 0.3f), 11076570);
  EXPECT_EQ(moved(kTranslationX, 7), 11121373);
  EXPECT_EQ(moved(kTranslationX, -5), 11042622);
  EXPECT_EQ(moved(kTranslationY, 7), 11151708);
  EXPECT_EQ(moved(kTranslationY, -5), 10918708);
}

// From tf.matmul of the corners in whole pixels, float32, each result cut to whole pixels.
TEST(Warp, MovesBoxesByTheirCorners) {
  const auto expect_moved = [](const Warp& warp, float amount, const std::vector<Box>& expected) {
    Example example = large_example();
    for (Box& box : example.boxes) box = warp.moved(box, amount, {120, 200});
    expect_close(tensor_of(example.boxes), tensor_of(expected), 0, 1e-5, fmt::format("moved by {}", amount));
  };
  const Box whole{0, 0, 1, 1};
  expect_moved(
      kRotation, 18,
      {{0.0833333f, 0.18f, 0.516667f, 0.58f}, whole, {0.308333f, 0.69f, 0.766667f, 1}, {0, 0.785f, 0.116667f, 0.93f}});
  expect_moved(kRotation, -24,
               {{0, 0.29f, 0.466667f, 0.69f}, whole, {0.675f, 0.58f, 1, 0.915f}, {0.341667f, 0.905f, 0.65f, 1}});
  expect_moved(
      kShearX, 0.24f,
      {{0.108333f, 0.175f, 0.366667f, 0.59f}, whole, {0.55f, 0.57f, 0.9f, 0.89f}, {0.0166667f, 0.855f, 0.3f, 0.985f}});
  expect_moved(kShearX, -0.3f,
               {{0.108333f, 0.245f, 0.366667f, 0.675f}, whole, {0.55f, 0.795f, 0.9f, 1}, {0.0166667f, 0.9f, 0.3f, 1}});
  // The last box would end above the image: a twentieth of it stays at its border.
  expect_moved(kShearY, 0.24f,
               {{0, 0.23f, 0.266667f, 0.61f}, whole, {0.158333f, 0.7f, 0.616667f, 0.97f}, {0, 0.9f, 0.05f, 0.99f}});
  expect_moved(
      kShearY, -0.3f,
      {{0.216667f, 0.23f, 0.666667f, 0.61f}, whole, {0.9f, 0.7f, 1, 0.97f}, {0.466667f, 0.9f, 0.791667f, 0.99f}});
  expect_moved(
      kTranslationX, 100,
      {{0.108333f, 0, 0.366667f, 0.11f}, {0, 0, 1, 0.5f}, {0.55f, 0.2f, 0.9f, 0.47f}, {0.0166667f, 0.4f, 0.3f, 0.49f}});
  expect_moved(
      kTranslationX, -50,
      {{0.108333f, 0.48f, 0.366667f, 0.86f}, {0, 0.25f, 1, 1}, {0.55f, 0.95f, 0.9f, 1}, {0.0166667f, 0.95f, 0.3f, 1}});
  expect_moved(kTranslationY, 100,
               {{0, 0.23f, 0.05f, 0.61f}, {0, 0, 0.166667f, 1}, {0, 0.7f, 0.0666667f, 0.97f}, {0, 0.9f, 0.05f, 0.99f}});
  expect_moved(kTranslationY, -50,
               {{0.525f, 0.23f, 0.783333f, 0.61f},
                {0.416667f, 0, 1, 1},
                {0.966667f, 0.7f, 1, 0.97f},
                {0.433333f, 0.9f, 0.716667f, 0.99f}});
}

// A white square whose mask is the square and whose keypoint is its middle.
TEST(PolicyOperation, BoxesMasksAndKeypointsFollowThePixels) {
  for (const char* name : {"Rotate_BBox", "ShearX_BBox", "ShearY_BBox", "TranslateX_BBox", "TranslateY_BBox"}) {
    for (const double coin : {0.25, 0.75}) {
      SCOPED_TRACE(fmt::format("{} {}", name, coin));
      Example example;
      example.image = at::zeros({600, 600, 3}, at::kByte);
      example.image.slice(0, 250, 270).slice(1, 310, 330).fill_(255);
      example.boxes = {{250.0f / 600, 310.0f / 600, 270.0f / 600, 330.0f / 600}};
      example.masks = at::zeros({1, 600, 600});
      example.masks.slice(1, 250, 270).slice(2, 310, 330).fill_(1);
      example.keypoints = at::tensor({260.0f / 600, 320.0f / 600}).view({1, 1, 2});
      run({name, 1, 4}, {0, coin}, example);

      const at::Tensor white = example.image.select(2, 0).eq(255);
      EXPECT_TRUE(at::equal(white, example.masks[0].eq(1)));
      const at::Tensor places = white.nonzero().to(at::kFloat);
      ASSERT_GT(places.size(0), 300);
      expect_close(places.mean(at::IntArrayRef{0}) + 0.5, example.keypoints[0][0] * 600, 0, 0.6, "middle");
      const at::Tensor first = places.amin(0), last = places.amax(0) + 1;
      expect_close(tensor_of(example.boxes)[0] * 600, at::cat({first, last}), 0, 2.5, "box");
    }
  }
}

TEST(PolicyOperation, ZeroProbabilityDoesNothingAndNoOperationNeedsBoxes) {
  for (const char* name : {"AutoContrast",
                           "Equalize",
                           "Posterize",
                           "Solarize",
                           "SolarizeAdd",
                           "Color",
                           "Contrast",
                           "Brightness",
                           "Sharpness",
                           "Cutout",
                           "BBox_Cutout",
                           "Rotate_BBox",
                           "ShearX_BBox",
                           "ShearY_BBox",
                           "TranslateX_BBox",
                           "TranslateY_BBox",
                           "Rotate_Only_BBoxes",
                           "ShearX_Only_BBoxes",
                           "ShearY_Only_BBoxes",
                           "TranslateX_Only_BBoxes",
                           "TranslateY_Only_BBoxes",
                           "Flip_Only_BBoxes",
                           "Solarize_Only_BBoxes",
                           "Equalize_Only_BBoxes",
                           "Cutout_Only_BBoxes"}) {
    SCOPED_TRACE(name);
    Example example = large_example();
    KeyedDraws draws({1, 2, 3, 4});
    policy_operation({name, 0, 10})(example, draws);
    EXPECT_TRUE(at::equal(example.image, formula_image(120, 200)));
    EXPECT_EQ(example.boxes, large_example().boxes);

    Example empty;
    empty.image = at::full({1, 1, 3}, 9, at::kByte);
    for (int i = 0; i < 5; ++i) ASSERT_NO_THROW(policy_operation({name, 1, 10})(empty, draws));
    EXPECT_EQ(empty.image.sizes(), (std::vector<int64_t>{1, 1, 3}));
  }
  for (const char* name : {"", "Invert", "Color_BBox", "Rotate", "Flip", "Rotate_BBox_Only_BBoxes"})
    EXPECT_THROW(policy_operation({name, 1, 1}), std::logic_error) << name;
}

TEST(PolicyOperation, ActsInsideEveryBoxAndNowhereElse) {
  // Rows 13 to 44 and columns 46 to 122 of 120 x 200, in one third of the cases.
  for (const auto& [chance, changes] : {std::pair{0.33, true}, {0.34, false}}) {
    Example example = large_example();
    example.boxes.resize(1);
    run({"Flip_Only_BBoxes", 1, 10}, {chance}, example);
    at::Tensor expected = formula_image(120, 200);
    const at::Tensor inside = expected.slice(0, 13, 45).slice(1, 46, 123);
    if (changes) inside.copy_(inside.flip(1).clone());
    EXPECT_TRUE(at::equal(example.image, expected)) << chance;
    EXPECT_EQ(example.boxes[0], large_example().boxes[0]);
  }
  // Level 2 of 10 of at most 120 pixels: 24 rows up, grey below.
  Example example = large_example();
  example.boxes.resize(1);
  run({"TranslateY_Only_BBoxes", 1, 2}, {0.75, 0}, example);
  at::Tensor expected = formula_image(120, 200);
  const at::Tensor inside = expected.slice(0, 13, 45).slice(1, 46, 123), before = inside.clone();
  inside.fill_(128);
  inside.slice(0, 0, 8).copy_(before.slice(0, 24, 32));
  EXPECT_TRUE(at::equal(example.image, expected));
}

TEST(PolicyOperation, BoxesAreTakenInADrawnOrder) {
  // Where boxes overlap, the later one is mirrored with what the earlier one left in it.
  const auto flipped = [](double order) {
    Example example = large_example();
    example.boxes = {{0, 0, 0.5f, 0.5f}, {0.25f, 0.25f, 1, 1}};
    run({"Flip_Only_BBoxes", 1, 0}, {order, 0, 0}, example);
    return example.image;
  };
  EXPECT_FALSE(at::equal(flipped(0), flipped(1)));
}

TEST(PolicyOperation, CutOutsAreSquaresAroundTheirPixel) {
  Example example = large_example();
  run({"Cutout", 1, 1}, {0, 5, 100}, example);  // 10 pixels to each side of row 5, column 100
  at::Tensor expected = formula_image(120, 200);
  expected.slice(0, 0, 15).slice(1, 90, 110).fill_(128);
  EXPECT_TRUE(at::equal(example.image, expected));

  // Box of rows 13 to 44 and columns 46 to 122: 0.3 * 32 / 2 = 4 rows and 0.3 * 77 / 2 = 11 columns to each side.
  example = large_example();
  run({"BBox_Cutout", 1, 4}, {0, 0, 14, 50}, example);
  expected = formula_image(120, 200);
  expected.slice(0, 10, 18).slice(1, 39, 61).fill_(128);
  EXPECT_TRUE(at::equal(example.image, expected));

  // Inside a box: level 2 of 10 of at most 50 pixels.
  example = large_example();
  example.boxes.resize(1);
  run({"Cutout_Only_BBoxes", 1, 2}, {0, 31, 0}, example);
  expected = formula_image(120, 200);
  expected.slice(0, 13 + 21, 45).slice(1, 46, 46 + 10).fill_(128);
  EXPECT_TRUE(at::equal(example.image, expected));
}

// TensorFlow's pictures for the whole policy, 120 x 200 pixels: 100 columns to a side, then equalised.
TEST(AutoAugment, AppliesTheStepsOfAPolicyInTheirOrder) {
  for (const auto& [coin, expected] : {std::pair{0.75, 340157119}, {0.25, 339219758}}) {
    Example example = large_example();
    apply("autoaugment_image { policy_name: 'test' }", {0, coin, 0}, example);
    EXPECT_EQ(example.image.scalar_type(), at::kFloat);
    EXPECT_EQ(checksum(example.image), expected) << coin;
  }
  // The fifth list of v0: rotated by 30 degrees, then between grey and more than its colours.
  Example example = large_example();
  apply("autoaugment_image {}", {4, 0.5, 0.25, 0.5}, example);
  EXPECT_EQ(checksum(example.image), 449896652);
}

TEST(AutoAugment, EveryPolicyKeepsItsPromises) {
  for (const auto& [name, lists] : {std::pair{"v0", 5u}, {"v1", 20u}, {"v2", 15u}, {"v3", 15u}, {"test", 1u}}) {
    EXPECT_EQ(policy_named(name).size(), lists);
    const auto subject = augmentation(fmt::format("autoaugment_image {{ policy_name: '{}' }}", name));
    for (uint64_t key = 0; key < 60; ++key) {
      Example example = large_example(), again = large_example(), empty = large_example();
      make_float(again);
      empty.boxes.clear();
      KeyedDraws a({0, 0, key, 0}), b({0, 0, key, 0}), c({0, 0, key, 0});
      subject->apply(example, a);
      subject->apply(again, b);
      subject->apply(empty, c);
      EXPECT_TRUE(at::equal(example.image, again.image));
      EXPECT_EQ(example.boxes, again.boxes);
      EXPECT_TRUE(at::equal(example.image, example.image.clamp(0, 255).floor()));
      ASSERT_EQ(example.boxes.size(), 4u);
      for (const Box& box : example.boxes)
        EXPECT_TRUE(0 <= box.ymin && box.ymin <= box.ymax && box.ymax <= 1 && 0 <= box.xmin && box.xmin <= box.xmax &&
                    box.xmax <= 1);
    }
  }
}

TEST(AutoAugment, UnknownPoliciesAreRefused) {
  EXPECT_THAT([] { augmentation("autoaugment_image { policy_name: 'v9' }"); },
              ThrowsMessage<ConfigError>(HasSubstr("autoaugment_image.policy_name: must be v0, v1, v2, v3 or test")));
}

}  // namespace
}  // namespace osprey::data
