#include "osprey/data/augmentation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "augmentation_support.h"
#include "osprey/base/error.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Three objects whose masks are their boxes and whose keypoints are their corners, so that all can be compared.
Example sketch(int64_t height, int64_t width) {
  Example example;
  example.image = at::arange(height * width * 3).remainder(251).to(at::kByte).view({height, width, 3});
  example.boxes = {{0, 0, 0.5f, 0.25f}, {0.25f, 0.5f, 0.75f, 1}, {0.5f, 0.25f, 1, 0.5f}};
  example.classes = {0, 1, 2};
  example.weights = {1, 2, 3};
  example.masks = at::zeros({3, height, width});
  example.keypoints = at::empty({3, 2, 2});
  for (int64_t i = 0; i < 3; ++i) {
    const Box& box = example.boxes[i];
    const auto row = [&](float y) { return static_cast<int64_t>(y * static_cast<float>(height)); };
    const auto column = [&](float x) { return static_cast<int64_t>(x * static_cast<float>(width)); };
    example.masks[i].slice(0, row(box.ymin), row(box.ymax)).slice(1, column(box.xmin), column(box.xmax)).fill_(1);
    example.keypoints[i].copy_(at::tensor({box.ymin, box.xmin, box.ymax, box.xmax}).view({2, 2}));
  }
  return example;
}

void expect_in_step(const Example& example) {
  ASSERT_EQ(example.masks.size(0), static_cast<int64_t>(example.boxes.size()));
  ASSERT_EQ(example.keypoints.size(0), static_cast<int64_t>(example.boxes.size()));
  ASSERT_EQ(example.masks.size(1), example.image.size(0));
  ASSERT_EQ(example.masks.size(2), example.image.size(1));
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const Box& box = example.boxes[i];
    const float pixels = box.area() * static_cast<float>(example.image.size(0) * example.image.size(1));
    EXPECT_NEAR(example.masks[static_cast<int64_t>(i)].sum().item<float>(), pixels, 1e-2);
    const at::Tensor corners = example.keypoints[static_cast<int64_t>(i)];
    if (corners.isnan().any().item<bool>()) continue;
    EXPECT_NEAR(corners.amin(0)[0].item<float>(), box.ymin, 1e-5);
    EXPECT_NEAR(corners.amax(0)[1].item<float>(), box.xmax, 1e-5);
  }
  EXPECT_EQ(example.classes.size(), example.boxes.size());
  EXPECT_EQ(example.weights.size(), example.boxes.size());
}

TEST(Augmentation, MasksAndKeypointsStayInStepWithBoxes) {
  for (const char* text :
       {"random_horizontal_flip { probability: 1 }", "random_vertical_flip { probability: 1 }",
        "random_rotation90 { probability: 1 }", "random_pad_image {}",
        "random_self_concat_image { concat_vertical_probability: 1 concat_horizontal_probability: 1 }",
        "random_mix_up { probability: 1 }",
        "random_mosaic { probability: 1 min_center: 0.5 max_center: 0.5 min_scale: 0.5 max_scale: 0.5 }"}) {
    SCOPED_TRACE(text);
    Example example = sketch(16, 8);
    KeyedDraws draws({1, 2, 3, 4});
    augmentation(text)->apply(example, draws);
    expect_in_step(example);
  }
  Example example = sketch(16, 8);
  crop(example, {4, 2, 12, 8}, 0.0f, true);
  expect_in_step(example);
}

TEST(Augmentation, FlipsAndCropsOfBytesEqualThoseOfFloats) {
  for (const char* text : {"random_horizontal_flip {}", "random_vertical_flip {}", "random_rotation90 {}",
                           "ssd_random_crop {}", "ssd_random_crop_fixed_aspect_ratio {}", "random_crop_image {}"}) {
    for (uint64_t key = 0; key < 20; ++key) {
      Example bytes = sketch(40, 32), floats = sketch(40, 32);
      make_float(floats);
      KeyedDraws a({0, 0, key, 0}), b({0, 0, key, 0});
      augmentation(text)->apply(bytes, a);
      augmentation(text)->apply(floats, b);
      EXPECT_EQ(bytes.image.scalar_type(), at::kByte) << text;
      EXPECT_TRUE(at::equal(bytes.image.to(at::kFloat), floats.image)) << text;
      EXPECT_EQ(bytes.boxes, floats.boxes) << text;
    }
  }
}

TEST(Augmentation, CropsKeepTheirPromises) {
  const auto subject = augmentation(
      "random_crop_image { min_object_covered: 0.5 min_aspect_ratio: 0.5 max_aspect_ratio: 2 min_area: 0.2 max_area: "
      "0.9 }");
  for (uint64_t key = 0; key < 200; ++key) {
    Example example = sketch(60, 80);
    KeyedDraws draws({0, 0, key, 0});
    subject->apply(example, draws);
    const float height = static_cast<float>(example.image.size(0)), width = static_cast<float>(example.image.size(1));
    const bool whole = height == 60 && width == 80;
    EXPECT_TRUE(whole || (height * width >= 0.2f * 4800 - 1 && height * width <= 0.9f * 4800 + 1))
        << height << " x " << width;
    EXPECT_TRUE(whole || (width / height > 0.45f && width / height < 2.1f));
    for (const Box& box : example.boxes) EXPECT_TRUE(box.ymin >= 0 && box.xmin >= 0 && box.ymax <= 1 && box.xmax <= 1);
  }
}

TEST(Augmentation, WindowsOfCropsAreRoundedAsTheOriginals) {
  const auto heights = [](const char* text, int64_t rows, int64_t columns) {
    std::set<int64_t> drawn;
    for (uint64_t key = 0; key < 200; ++key) {
      Example example = sketch(rows, columns);
      KeyedDraws draws({0, 0, key, 0});
      augmentation(text)->apply(example, draws);
      drawn.insert(example.image.size(0));
    }
    return drawn;
  };
  // Not 21, though 21 * 0.5 is 10 where halves are rounded to even.
  const auto slender = heights(
      "random_crop_image { min_object_covered: 0 min_aspect_ratio: 0.5 max_aspect_ratio: 0.5 min_area: 0.1 }", 40, 10);
  EXPECT_EQ(*slender.rbegin(), 20);
  // In float32 0.3 * 10 * 10 is 30, but 0.3 * 100 is above it, and no window of 30 pixels would do.
  EXPECT_EQ(heights("random_crop_image { min_object_covered: 0 min_aspect_ratio: 1.2 max_aspect_ratio: 1.2 "
                    "min_area: 0.3 max_area: 0.3 }",
                    10, 10),
            std::set<int64_t>{5});
}

TEST(Augmentation, EveryStepOfTheConfigLanguageIsBuilt) {
  const auto* steps = proto::PreprocessingStep::descriptor();
  int built = 0;
  for (int i = 0; i < steps->field_count(); ++i) {
    if (steps->field(i)->name() == "custom") continue;
    EXPECT_TRUE(Augmentation::Registry::instance().has(steps->field(i)->message_type()->full_name()))
        << steps->field(i)->name();
    ++built;
  }
  EXPECT_EQ(built, 41);
}

// Each with the fields that it cannot do without.
std::vector<std::string> every_step() {
  const auto* steps = proto::PreprocessingStep::descriptor();
  std::vector<std::string> texts;
  for (int i = 0; i < steps->field_count(); ++i) {
    const std::string name = steps->field(i)->name();
    if (name == "custom") continue;
    std::string fields;
    if (name == "normalize_image") fields = "original_maxval: 255";
    if (name == "subtract_channel_mean") fields = "means: [1, 2, 3]";
    if (name == "remap_labels") fields = "new_label: 1";
    if (name == "drop_label_probabilistically") fields = "label: 1";
    if (name == "resize_image") fields = "new_height: 2 new_width: 3";
    if (name == "random_resize_method") fields = "target_height: 2 target_width: 3";
    texts.push_back(name + " {" + fields + "}");
  }
  return texts;
}

TEST(Augmentation, PicturesOfOnePixelAndWithoutBoxesPass) {
  for (const std::string& step : every_step()) {
    Example example;
    example.image = at::full({1, 1, 3}, 9, at::kByte);
    example.multiclass_scores = at::zeros({0, 4});
    KeyedDraws draws({0, 0, 0, 0});
    SCOPED_TRACE(step);
    ASSERT_NO_THROW(augmentation(step)->apply(example, draws));
    EXPECT_GE(example.image.numel(), 3);
    EXPECT_TRUE(example.boxes.empty());
  }
}

TEST(Augmentation, NoStepWritesIntoTheTensorsItIsGiven) {
  for (const std::string& step : every_step()) {
    const auto subject = augmentation(step);
    for (const bool floats : {false, true}) {
      Example given = sketch(40, 32), same = sketch(40, 32);
      given.multiclass_scores = same.multiclass_scores = at::eye(3);
      if (floats) make_float(given);
      for (uint64_t key = 0; key < 10; ++key) {
        Example example = given;
        KeyedDraws draws({0, 0, key, 0});
        subject->apply(example, draws);
        ASSERT_TRUE(at::equal(given.image.to(at::kByte), same.image)) << step;
        ASSERT_TRUE(at::equal(given.masks, same.masks)) << step;
        ASSERT_TRUE(at::equal(given.keypoints, same.keypoints)) << step;
      }
    }
  }
}

TEST(Augmentation, ACropMayLeaveNoBox) {
  Example example = sketch(16, 16);
  crop(example, {0, 12, 2, 14}, 0.5f, true);
  EXPECT_TRUE(example.boxes.empty());
  EXPECT_EQ(example.keypoints.size(0), 0);
}

TEST(Augmentation, ValuesOutOfRangeAreNamed) {
  EXPECT_THAT([] { augmentation("random_horizontal_flip { probability: 2 }"); },
              ThrowsMessage<ConfigError>(HasSubstr("random_horizontal_flip.probability")));
  EXPECT_THAT(
      [] {
        augmentation(
            "ssd_random_crop { operations { min_aspect_ratio: 1 max_aspect_ratio: 2 min_area: 0 max_area: 1 } }");
      },
      ThrowsMessage<ConfigError>(HasSubstr("ssd_random_crop.operations[0].min_area")));
}

TEST(Random, PhiloxGivesThePublishedNumbers) {
  // Known answers of Random123's test file for philox4x32-10.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, PermutationsHoldEveryNumberOnce) {
  for (int64_t size : {1, 2, 3, 10, 205, 1000}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < size; ++i) seen.insert(permuted(i, size, 7, 1));
    EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Random, UniformNumbersFillTheirRange) {
  KeyedDraws draws({1, 2, 3, 4});
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = draws.uniform(2, 4);
    ASSERT_TRUE(value >= 2 && value < 4);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 3, 0.03);  // five standard errors
}

}  // namespace
}  // namespace osprey::data
