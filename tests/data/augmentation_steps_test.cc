#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "augmentation_support.h"
#include "osprey/base/error.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"
#include "osprey/data/resize.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Example with_boxes(std::vector<Box> boxes) {
  Example example;
  example.image = formula_image(16, 24);
  example.classes.assign(boxes.size(), 0);
  example.weights.assign(boxes.size(), 1);
  example.boxes = std::move(boxes);
  return example;
}

Box jittered(const std::string& mode, const std::vector<double>& script, const Box& box) {
  Example example = with_boxes({box});
  apply("random_jitter_boxes { ratio: 0.5 jitter_mode: " + mode + " }", script, example);
  return example.boxes[0];
}

void expect_box(const Box& actual, const Box& expected) {
  expect_close(tensor_of({actual}), tensor_of({expected}), 0, 1e-6, "box");
}

void expect_refused(const std::string& text, const std::string& field) {
  EXPECT_THAT([&] { augmentation(text); }, ThrowsMessage<ConfigError>(HasSubstr(field))) << text;
}

TEST(JitterBoxes, EveryEdgeMovesByAShareOfItsDistanceFromTheCentre) {
  // Centre (0.5, 0.4), half sizes 0.2 and 0.2: ymin 0.5 - 0.2 * 1.5, xmin 0.4 - 0.2 * 0.5, and so on.
  expect_box(jittered("DEFAULT", {0.5, -0.5, -0.25, 0.25}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.2f, 0.3f, 0.65f, 0.65f});
  expect_box(jittered("EXPAND", {0.5, 0, 0.25, 0.25}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.2f, 0.2f, 0.75f, 0.65f});
  expect_box(jittered("SHRINK", {-0.5, 0, -0.25, -0.25}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.4f, 0.2f, 0.65f, 0.55f});
}

TEST(JitterBoxes, SymmetricModesKeepTheCentreAndStopAtTheBorderOnBothSides) {
  expect_box(jittered("EXPAND_SYMMETRIC", {0.5, 0.25}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.2f, 0.15f, 0.8f, 0.65f});
  expect_box(jittered("SHRINK_SYMMETRIC", {-0.5, -0.25}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.4f, 0.25f, 0.6f, 0.55f});
  expect_box(jittered("EXPAND_SYMMETRIC_XY", {0.5}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.2f, 0.1f, 0.8f, 0.7f});
  expect_box(jittered("SHRINK_SYMMETRIC_XY", {-0.5}, {0.3f, 0.2f, 0.7f, 0.6f}), {0.4f, 0.3f, 0.6f, 0.5f});
  // Centre 0.25 of a height of 0.4: no factor above 2 * 0.25 / 0.4 = 1.25, in XY for the width as well.
  expect_box(jittered("EXPAND_SYMMETRIC", {0.5, 0.5}, {0.05f, 0.3f, 0.45f, 0.7f}), {0, 0.2f, 0.5f, 0.8f});
  expect_box(jittered("EXPAND_SYMMETRIC_XY", {0.5}, {0.05f, 0.3f, 0.45f, 0.7f}), {0, 0.25f, 0.5f, 0.75f});
}

TEST(JitterBoxes, BoxesStayInTheImageAndNothingElseChanges) {
  for (const char* mode : {"DEFAULT", "EXPAND", "SHRINK", "EXPAND_SYMMETRIC", "SHRINK_SYMMETRIC", "EXPAND_SYMMETRIC_XY",
                           "SHRINK_SYMMETRIC_XY"}) {
    Example example = with_boxes({{0, 0, 1, 1}, {0.5f, 0.5f, 0.5f, 0.5f}, {0.9f, 0.1f, 1, 0.3f}});
    KeyedDraws draws({1, 2, 3, 4});
    augmentation(fmt::format("random_jitter_boxes {{ ratio: 0.9 jitter_mode: {} }}", mode))->apply(example, draws);
    for (const Box& box : example.boxes) {
      EXPECT_TRUE(0 <= box.ymin && box.ymin <= box.ymax && box.ymax <= 1) << mode;
      EXPECT_TRUE(0 <= box.xmin && box.xmin <= box.xmax && box.xmax <= 1) << mode;
    }
    EXPECT_TRUE(at::equal(example.image, formula_image(16, 24)));
  }
  expect_refused("random_jitter_boxes { ratio: -0.1 }", "random_jitter_boxes.ratio");
}

TEST(ResizeImage, HasTheSizeAndTheMethodOfTheConfig) {
  for (const auto& [name, method] : {std::pair{"AREA", ResizeMethod::kArea},
                                     {"BICUBIC", ResizeMethod::kBicubic},
                                     {"BILINEAR", ResizeMethod::kBilinear},
                                     {"NEAREST_NEIGHBOR", ResizeMethod::kNearest}}) {
    Example example = with_boxes({{0.25f, 0.25f, 0.5f, 0.5f}});
    example.masks = at::ones({1, 16, 24});
    apply(fmt::format("resize_image {{ new_height: 7 new_width: 40 method: {} }}", name), {}, example);
    const bool keeps_floats = method == ResizeMethod::kBicubic;
    const at::Tensor from = formula_image(16, 24).to(keeps_floats ? at::kFloat : at::kByte);
    EXPECT_TRUE(at::equal(example.image, resize(from, 7, 40, {method}))) << name;
    EXPECT_TRUE(at::equal(example.masks, at::ones({1, 7, 40})));
    EXPECT_EQ(example.boxes[0], (Box{0.25f, 0.25f, 0.5f, 0.5f}));
  }
  Example edges;
  edges.image = at::tensor({0, 0, 255, 255, 0, 0}, at::kByte).view({1, 6, 1}).expand({4, 6, 3}).contiguous();
  apply("resize_image { new_height: 4 new_width: 15 method: BICUBIC }", {}, edges);
  EXPECT_LT(edges.image.min().item<float>(), -1) << "as the original, which does not cut it off";
  EXPECT_GT(edges.image.max().item<float>(), 256);
  EXPECT_TRUE(augmentation("resize_image { new_height: 3 new_width: 3 method: BICUBIC }")->leaves_levels());
  EXPECT_FALSE(augmentation("resize_image { new_height: 3 new_width: 3 method: AREA }")->leaves_levels());
  expect_refused("resize_image { new_width: 3 }", "resize_image.new_height");
  expect_refused("resize_image { new_height: 3 }", "resize_image.new_width");
}

TEST(RandomCropPadImage, ALeastCanvasAboveTheUsualLargestIsTheCanvas) {
  Example example = with_boxes({{0.25f, 0.25f, 0.5f, 0.5f}});
  KeyedDraws draws({1, 2, 3, 4});
  augmentation("random_crop_pad_image { min_padded_size_ratio: [3, 4] }")->apply(example, draws);
  EXPECT_EQ(example.image.sizes(), at::IntArrayRef({48, 96, 3}));
  expect_refused("random_crop_pad_image { min_padded_size_ratio: [3, 4] max_padded_size_ratio: [2, 5] }",
                 "random_crop_pad_image.max_padded_size_ratio");
}

TEST(RandomResizeMethod, DrawsOneOfFourMethods) {
  const ResizeMethod methods[] = {ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kBicubic,
                                  ResizeMethod::kArea};
  for (int choice = 0; choice < 4; ++choice) {
    Example example = with_boxes({});
    apply("random_resize_method { target_height: 30 target_width: 11 }", {static_cast<double>(choice)}, example);
    EXPECT_TRUE(at::equal(example.image, resize(formula_image(16, 24).to(at::kFloat), 30, 11, {methods[choice]})))
        << choice;
  }
  expect_refused("random_resize_method { target_width: 3 }", "random_resize_method.target_height");
  expect_refused("random_resize_method { target_height: 3 }", "random_resize_method.target_width");
}

TEST(DownscaleToTargetPixels, BothSidesShrinkByOneFactor) {
  // sqrt(96 / 384) = 0.5.
  Example example = with_boxes({{0.25f, 0.25f, 0.5f, 0.5f}});
  example.masks = at::ones({1, 16, 24});
  apply("random_downscale_to_target_pixels { min_target_pixels: 96 max_target_pixels: 200 }", {0.5, 96}, example);
  EXPECT_TRUE(at::equal(example.image, resize(formula_image(16, 24), 8, 12)));
  EXPECT_EQ(example.masks.sizes(), (std::vector<int64_t>{1, 8, 12}));
  EXPECT_EQ(example.boxes[0], (Box{0.25f, 0.25f, 0.5f, 0.5f}));
}

TEST(DownscaleToTargetPixels, SmallImagesAndTheShareThatIsLeftAloneStay) {
  Example example = with_boxes({});
  apply("random_downscale_to_target_pixels { min_target_pixels: 384 max_target_pixels: 999 }", {0.5, 384}, example);
  apply("random_downscale_to_target_pixels { random_coef: 1 min_target_pixels: 9 max_target_pixels: 20 }", {0.99, 10},
        example);
  EXPECT_TRUE(at::equal(example.image, formula_image(16, 24)));
  // Without max_target_pixels up to 800000 are drawn, as in the original, whose schema says 500000.
  apply("random_downscale_to_target_pixels {}", {0.5, 799999}, example);
  expect_refused("random_downscale_to_target_pixels { random_coef: 2 }", "random_coef");
  expect_refused("random_downscale_to_target_pixels { min_target_pixels: 0 }", "min_target_pixels");
  expect_refused("random_downscale_to_target_pixels { max_target_pixels: 7 }", "max_target_pixels");
}

TEST(DownscaleToTargetPixels, ARowOfPixelsKeepsItsHeight) {
  Example example;
  example.image = at::zeros({1, 5000, 3}, at::kByte);
  apply("random_downscale_to_target_pixels { min_target_pixels: 100 max_target_pixels: 101 }", {0.5}, example);
  EXPECT_EQ(example.image.sizes(), (std::vector<int64_t>{1, 707, 3}));  // 5000 * sqrt(100 / 5000)
}

// Checksums of what TensorFlow 2.15 makes of the same picture: tf.raw_ops.EncodeJpegVariableQuality, then
// tf.image.decode_jpeg.
TEST(JpegQuality, IsThatOfTensorFlow) {
  for (const auto& [quality, expected] :
       {std::pair{0, 7151885}, {1, 7151885}, {10, 7066596}, {50, 6995132}, {97, 6971138}}) {
    Example example = with_boxes({});
    apply("random_jpeg_quality {}", {0.5, static_cast<double>(quality)}, example);
    EXPECT_EQ(example.image.scalar_type(), at::kFloat);
    EXPECT_EQ(checksum(example.image), expected) << quality;
  }
}

TEST(JpegQuality, FloatsAreCutToLevelsFirst) {
  Example bytes = with_boxes({}), floats = with_boxes({});
  floats.image = (floats.image.to(at::kFloat) + 0.9f).clamp(0, 255.9f);
  apply("random_jpeg_quality {}", {0.5, 80}, bytes);
  apply("random_jpeg_quality {}", {0.5, 80}, floats);
  EXPECT_TRUE(at::equal(bytes.image, floats.image));
}

TEST(JpegQuality, TheShareThatIsLeftAloneStaysAndBadValuesAreNamed) {
  Example example = with_boxes({});
  apply("random_jpeg_quality { random_coef: 1 }", {0.99}, example);
  EXPECT_TRUE(at::equal(example.image, formula_image(16, 24)));
  expect_refused("random_jpeg_quality { random_coef: -1 }", "random_coef");
  expect_refused("random_jpeg_quality { min_jpeg_quality: -1 }", "min_jpeg_quality");
  expect_refused("random_jpeg_quality { min_jpeg_quality: 50 max_jpeg_quality: 40 }", "max_jpeg_quality");
  expect_refused("random_jpeg_quality { max_jpeg_quality: 102 }", "max_jpeg_quality");  // 101 is not drawn itself
}

TEST(Crop, KeypointsOutsideAreForgottenOnlyWhereBoxesAreClipped) {
  // Window [2, 2, 8, 8] of 10 x 10 pixels: a point at 0.1 is (1 - 2) / 6 of it, one at 0.5 its middle.
  for (const bool clip : {false, true}) {
    Example example;
    example.image = at::zeros({10, 10, 3}, at::kByte);
    example.boxes = {{0.1f, 0.1f, 0.6f, 0.6f}};
    example.classes = {0};
    example.keypoints = at::tensor({0.1f, 0.1f, 0.5f, 0.5f}).view({1, 2, 2});
    crop(example, {2, 2, 8, 8}, /*overlap_thresh=*/0.1f, clip);
    const float outside = clip ? NAN : -1.0f / 6;
    expect_close(example.keypoints, at::tensor({outside, outside, 0.5f, 0.5f}).view({1, 2, 2}), 0, 1e-6, "keypoints");
  }
}

TEST(Resize, AreaKeepsLongEnlargementsExact) {
  // Wherever an output pixel lies within one input pixel, it is that pixel: column 889 of 1333 in the last of three.
  const at::Tensor row = at::tensor({255.0f, 100.0f, 255.0f}).view({1, 3, 1}).expand({1, 3, 3}).contiguous();
  const at::Tensor wide = resize(row, 1, 1333, {.method = ResizeMethod::kArea});
  EXPECT_NEAR(wide[0][889][0].item<float>(), 255, 1e-3);
  EXPECT_NEAR(wide[0][600][0].item<float>(), 100, 1e-3);
}

TEST(PatchGaussian, NoiseStaysInASquareAroundItsPixel) {
  // Side 2 around row 5 and column 7: rows 4 and 5, columns 6 and 7. Noise 255 * 0.1 * sqrt(-2 ln(1 - u)) cos(2 pi v);
  // u = 1 - e^-0.5 and v = 0 give 25.5, v = 0.5 gives -25.5.
  std::vector<double> script = {0.5, 2, 0.1, 5, 7};
  for (int i = 0; i < 12; ++i) script.insert(script.end(), {1 - std::exp(-0.5), i < 6 ? 0.0 : 0.5});
  Example example = with_boxes({});
  example.image = at::full({16, 24, 3}, 20, at::kByte);
  apply("random_patch_gaussian {}", script, example);
  at::Tensor expected = at::full({16, 24, 3}, 20, at::kFloat);
  expected[4].slice(0, 6, 8).fill_(45.5);
  expected[5].slice(0, 6, 8).fill_(0);  // -5.5 is limited to 0
  expect_close(example.image, expected, 0, 1e-3, "patch");
}

TEST(PatchGaussian, IsCutOffAtTheBorder) {
  Example example = with_boxes({});
  example.image = at::full({16, 24, 3}, 128, at::kFloat);
  const at::Tensor before = example.image;
  class Corner final : public RandomDraws {
   public:
    float uniform(float low, float high) override { return draws_.uniform(low, high); }
    int64_t integer(int64_t low, int64_t high) override { return low == 0 ? 0 : high - 1; }

   private:
    KeyedDraws draws_{{1, 2, 3, 4}};
  } corner;
  augmentation("random_patch_gaussian { max_patch_size: 6 min_gaussian_stddev: 0.2 }")->apply(example, corner);
  const at::Tensor changed = example.image != 128;  // side 5 around the first pixel: 3 x 3 of it are in the image
  EXPECT_EQ(changed.sum().item<int64_t>(), changed.slice(0, 0, 3).slice(1, 0, 3).sum().item<int64_t>());
  EXPECT_GE(changed.sum().item<int64_t>(), 26);
  EXPECT_TRUE((before == 128).all().item<bool>()) << "the image of the caller was written to";
}

TEST(PatchGaussian, HasTheDeviationOfTheConfig) {
  Example example;
  example.image = at::full({64, 64, 3}, 128, at::kFloat);
  KeyedDraws draws({1, 2, 3, 4});
  augmentation(
      "random_patch_gaussian { min_patch_size: 200 max_patch_size: 201 min_gaussian_stddev: 0.1 "
      "max_gaussian_stddev: 0.1 }")
      ->apply(example, draws);
  // 12288 numbers: their mean has a standard error of 0.23, their deviation one of 0.16.
  EXPECT_NEAR(example.image.mean().item<double>(), 128, 1.2);
  EXPECT_NEAR(example.image.std().item<double>(), 25.5, 0.8);
}

TEST(PatchGaussian, TheShareThatIsLeftAloneStaysAndBadValuesAreNamed) {
  Example example = with_boxes({});
  apply("random_patch_gaussian { random_coef: 1 }", {0.99}, example);
  EXPECT_TRUE(at::equal(example.image, formula_image(16, 24)));
  expect_refused("random_patch_gaussian { random_coef: 2 }", "random_coef");
  expect_refused("random_patch_gaussian { min_patch_size: 0 }", "min_patch_size");
  expect_refused("random_patch_gaussian { min_patch_size: 300 }", "max_patch_size");
  expect_refused("random_patch_gaussian { min_gaussian_stddev: -1 }", "min_gaussian_stddev");
  expect_refused("random_patch_gaussian { max_gaussian_stddev: -1 }", "max_gaussian_stddev");
}

TEST(RgbToGray, LeavesThreeEqualChannelsThatEveryOtherStepTakes) {
  Example gray = with_boxes({});
  apply("rgb_to_gray {}", {}, gray);
  EXPECT_TRUE(at::equal(gray.image, luma(formula_image(16, 24).to(at::kFloat)).expand({-1, -1, 3})));
  for (const char* const step :
       {"random_adjust_hue {}", "random_distort_color {}", "random_rgb_to_gray { probability: 1 }", "rgb_to_gray {}",
        "random_jpeg_quality {}", "autoaugment_image { policy_name: 'test' }", "random_pad_image {}"}) {
    Example example = gray;
    KeyedDraws draws({1, 2, 3, 4});
    ASSERT_NO_THROW(augmentation(step)->apply(example, draws)) << step;
    EXPECT_EQ(example.image.size(2), 3) << step;
  }
}

TEST(ScaleBoxesToPixelCoordinates, ScalesBoxesAndKeypointsAndIsRefusedForBatches) {
  Example example = with_boxes({{0.25f, 0.5f, 0.5f, 1}});
  example.keypoints = at::full({1, 1, 2}, 0.5f);
  apply("scale_boxes_to_pixel_coordinates {}", {}, example);
  EXPECT_EQ(example.boxes[0], (Box{4, 12, 8, 24}));
  EXPECT_TRUE(at::equal(example.keypoints, at::tensor({8.0f, 12.0f}).view({1, 1, 2})));

  const auto train = config::parse<proto::TrainConfig>(
      "data_augmentation_options { random_horizontal_flip {} }\n"
      "data_augmentation_options { scale_boxes_to_pixel_coordinates {} }",
      "test");
  EXPECT_THAT([&] { build_augmenter(train.node()); },
              ThrowsMessage<ConfigError>(HasSubstr(
                  "test:2:29: data_augmentation_options[1].scale_boxes_to_pixel_coordinates: leaves boxes in pixels")));
}

TEST(ConvertClassLogitsToSoftmax, DividesByTheTemperatureFirst) {
  // exp(2 / 2) = e and exp(0) = 1: e / (e + 1) = 0.7311.
  Example example = with_boxes({{0, 0, 1, 1}});
  example.multiclass_scores = at::tensor({2.0f, 0.0f}).view({1, 2});
  apply("convert_class_logits_to_softmax { temperature: 2 }", {}, example);
  expect_close(example.multiclass_scores, at::tensor({0.7311f, 0.2689f}).view({1, 2}), 0, 1e-4, "scores");
  example.multiclass_scores = at::Tensor();
  EXPECT_THROW(apply("convert_class_logits_to_softmax {}", {}, example), c10::Error);
  expect_refused("convert_class_logits_to_softmax { temperature: 0 }", "convert_class_logits_to_softmax.temperature");
}

}  // namespace
}  // namespace osprey::data
