#include "osprey/boxes/anchor_generator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/anchor_generator.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using osprey::testing::expect_close;

std::unique_ptr<AnchorGenerator> generator(const std::string& text) {
  const auto parsed = config::parse<proto::AnchorGenerator>(text, "test");
  return build_anchor_generator(parsed.node());
}

TEST(AnchorGenerator, EveryChoiceHasAnImplementation) {
  const auto* oneof = proto::AnchorGenerator::descriptor()->FindOneofByName("anchor_generator_oneof");
  for (int i = 0; i < oneof->field_count(); ++i) {
    const auto* field = oneof->field(i);
    if (field->message_type()->full_name() == "google.protobuf.Any") continue;
    EXPECT_TRUE(AnchorGenerator::Registry::instance().has(field->message_type()->full_name())) << field->name();
  }
}

TEST(SsdAnchors, LowestLayerHasThreeFixedBoxes) {
  const auto ssd = generator("ssd_anchor_generator { num_layers: 2 min_scale: 0.2 max_scale: 0.8 aspect_ratios: 1 }");
  EXPECT_EQ(ssd->num_anchors_per_location(), (std::vector<int64_t>{3, 2}));
  const at::Tensor anchors = ssd->generate({{1, 1}, {1, 1}}, 300, 300);
  // One cell, so all centres are at 0.5. Scale 0.1; scale 0.2 of ratio 2: 0.2 / sqrt 2 = 0.1414 high, 0.2828 wide.
  expect_close(anchors[0], at::tensor({0.45f, 0.45f, 0.55f, 0.55f}), 0, 1e-6, "fixed");
  expect_close(anchors[1], at::tensor({0.429289f, 0.358579f, 0.570711f, 0.641421f}), 0, 1e-6, "ratio 2");
  // Last layer: scale 0.8, and the interpolated sqrt(0.8 * 1.0) = 0.8944.
  expect_close(anchors[3], at::tensor({0.1f, 0.1f, 0.9f, 0.9f}), 0, 1e-6, "own scale");
  expect_close(anchors[4], at::tensor({0.052786f, 0.052786f, 0.947214f, 0.947214f}), 0, 1e-6, "interpolated scale");
}

TEST(SsdAnchors, NoAspectRatiosLeaveOnlyTheInterpolatedBox) {
  EXPECT_EQ(generator("ssd_anchor_generator {}")->num_anchors_per_location(), (std::vector<int64_t>{3, 1, 1, 1, 1, 1}));
}

TEST(SsdAnchors, ScalesBeyondTheLayersServeToInterpolate) {
  // sqrt(0.2 * 0.8) = 0.4: half of it on either side of the only centre.
  const auto ssd =
      generator("ssd_anchor_generator { num_layers: 1 reduce_boxes_in_lowest_layer: false scales: [0.2, 0.8, 0.9] }");
  EXPECT_EQ(ssd->num_anchors_per_location(), (std::vector<int64_t>{1}));
  expect_close(ssd->generate({{1, 1}}, 100, 100)[0], at::tensor({0.3f, 0.3f, 0.7f, 0.7f}), 0, 1e-6, "anchor");
}

TEST(SsdAnchors, WidthsOfGridsCountOnlyWithHeights) {
  const std::string text = "ssd_anchor_generator { num_layers: 1 aspect_ratios: 1 ";
  const auto plain = generator(text + "}"), widths = generator(text + "width_stride: 8 width_offset: [1, 2] }");
  expect_close(widths->generate({{2, 2}}, 100, 100), plain->generate({{2, 2}}, 100, 100), 0, 0, "anchors");
}

TEST(SsdAnchors, SquareAnchorsAreSquareInPixelsOfAWideImage) {
  const auto ssd = generator(
      "ssd_anchor_generator { num_layers: 1 scales: 0.5 aspect_ratios: 1 reduce_boxes_in_lowest_layer: false "
      "interpolated_scale_aspect_ratio: 0 }");
  expect_close(ssd->generate({{1, 1}}, 100, 200)[0], at::tensor({0.25f, 0.375f, 0.75f, 0.625f}), 0, 1e-6, "anchor");
}

TEST(MultiscaleAnchors, OffsetIsHalfAStrideOnlyWhereTheStrideDividesTheSide) {
  const auto pyramid = generator(
      "multiscale_anchor_generator { min_level: 6 max_level: 7 aspect_ratios: 1 scales_per_octave: 1 "
      "normalize_coordinates: false }");
  const at::Tensor anchors = pyramid->generate({{5, 5}, {3, 3}}, 320, 320);
  // Level 6: stride 64 divides 320, first centre 32, side 256. Level 7: 128 does not divide 320, first centre 0, side
  // 512.
  expect_close(anchors[0], at::tensor({-96.0f, -96.0f, 160.0f, 160.0f}), 0, 0, "level 6");
  expect_close(anchors[25], at::tensor({-256.0f, -256.0f, 256.0f, 256.0f}), 0, 0, "level 7");
}

TEST(MultiscaleAnchors, OffsetIsAlwaysHalfAStrideForANetworkThatTakesAnySize) {
  const auto pyramid = generator(
      "multiscale_anchor_generator { min_level: 7 max_level: 7 aspect_ratios: 1 scales_per_octave: 1 "
      "normalize_coordinates: false }");
  expect_close(pyramid->generate_for_any_size({{3, 3}}, 320, 320)[0], at::tensor({-192.0f, -192.0f, 320.0f, 320.0f}), 0,
               0, "level 7");
}

TEST(MultiscaleAnchors, RatiosAreOutsideScalesInside) {
  const auto pyramid = generator(
      "multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: [1, 4] scales_per_octave: 2 "
      "normalize_coordinates: false }");
  const at::Tensor anchors = pyramid->generate({{1, 1}}, 8, 8), heights = anchors.select(1, 2) - anchors.select(1, 0);
  expect_close(heights, at::tensor({32.0f, 45.254834f, 16.0f, 22.627417f}), 1e-6, 0, "heights");
}

TEST(AnchorGenerator, WhatDoesNotFitTheNetworkThrows) {
  const auto pyramid = generator("multiscale_anchor_generator { aspect_ratios: 1 }");
  EXPECT_THROW(pyramid->generate({{1, 1}}, 64, 64), c10::Error);
  EXPECT_THROW(pyramid->generate({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1, 1), c10::Error);  // size not known
  EXPECT_EQ(pyramid->generate({{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 1}}, 64, 64).size(0), 2);
}

TEST(AnchorGenerator, BadValuesAreReportedWithTheirField) {
  const auto reported = [](const char* text, const char* field) {
    EXPECT_THAT([=] { generator(text); }, ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(field))) << text;
  };
  reported("ssd_anchor_generator { num_layers: 0 }", "num_layers");
  reported("ssd_anchor_generator { scales: [0.1, 0.2] }", "scales");
  reported("ssd_anchor_generator { aspect_ratios: -1 }", "aspect_ratios");
  reported("ssd_anchor_generator { interpolated_scale_aspect_ratio: 0 }", "aspect_ratios: must name at least one");
  reported("ssd_anchor_generator { height_stride: 8 width_stride: 8 }", "height_stride");
  reported("multiscale_anchor_generator {}", "aspect_ratios");
  reported("multiscale_anchor_generator { min_level: 5 max_level: 4 aspect_ratios: 1 }", "max_level");
  reported("grid_anchor_generator { scales: 1 aspect_ratios: 1 height_stride: 0 }", "height_stride");
  reported(
      "flexible_grid_anchor_generator { anchor_grid { base_sizes: [1, 2] aspect_ratios: 1 height_stride: 1 "
      "width_stride: 1 } }",
      "anchor_grid[0].aspect_ratios");
}

}  // namespace
}  // namespace osprey::boxes
