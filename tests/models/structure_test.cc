// What the fields of a config make of a model, in numbers of the original: those of its own models, built for training
// (TF1 or, for types that end in _keras, TF2) from the same text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/models/summary.h"

namespace osprey::models {
namespace {

const std::string kBatchNorm = "batch_norm { scale: true }", kNoOffset = "batch_norm { scale: true center: false }";

std::string hyperparams(const std::string& batch_norm) {
  return "conv_hyperparams { activation: RELU_6 regularizer { l2_regularizer { weight: 4e-5 } } initializer { "
         "truncated_normal_initializer { stddev: 0.03 } } " +
         batch_norm + " } ";
}

/// With a predictor of its own for each of six maps, on 200x200 pixels.
std::string ssd(const std::string& extractor, const std::string& predictor, const std::string& batch_norm = kBatchNorm,
                int64_t side = 200) {
  return fmt::format(
      "image_resizer {{ fixed_shape_resizer {{ height: {0} width: {0} }} }} feature_extractor {{ {1} {2} }} "
      "anchor_generator {{ ssd_anchor_generator {{ num_layers: 6 aspect_ratios: [1, 2] }} }} box_predictor {{ {3} }}",
      side, extractor, hyperparams(batch_norm), predictor);
}

std::string convolutional(const std::string& fields, const std::string& batch_norm = kBatchNorm) {
  return "convolutional_box_predictor { " + fields + " " + hyperparams(batch_norm) + " }";
}

const std::string kWeightShared =
    "weight_shared_convolutional_box_predictor { depth: 16 num_layers_before_predictor: 2 kernel_size: 3 " +
    hyperparams(kBatchNorm) + " }";

/// With one predictor for all levels, on 256x256 pixels.
std::string pyramid(const std::string& extractor, const std::string& batch_norm = kBatchNorm, int64_t last = 7) {
  return fmt::format(
      "image_resizer {{ fixed_shape_resizer {{ height: 256 width: 256 }} }} feature_extractor {{ {} {} }} "
      "anchor_generator {{ multiscale_anchor_generator {{ min_level: 3 max_level: {} aspect_ratios: 1 "
      "scales_per_octave: 1 }} }} box_predictor {{ {} }}",
      extractor, hyperparams(batch_norm), last, kWeightShared);
}

struct Numbers {
  int64_t trainable, total, anchors, penalties;
};

void expect_numbers(const std::string& model_text, const Numbers& expected) {
  const config::Pipeline pipeline = config::parse_pipeline(
      "model { ssd { num_classes: 3 box_coder { faster_rcnn_box_coder {} } matcher { argmax_matcher {} } "
      "similarity_calculator { iou_similarity {} } loss { classification_loss { weighted_sigmoid {} } "
      "localization_loss { weighted_smooth_l1 {} } } post_processing { batch_non_max_suppression {} } " +
          model_text + " } }",
      "structure.config");
  const Summary summary = summarize_model(pipeline.root());
  EXPECT_EQ(summary.trainable_parameters, expected.trainable) << model_text;
  EXPECT_EQ(summary.total_parameters, expected.total) << model_text;
  EXPECT_EQ(summary.num_anchors, expected.anchors) << model_text;
  const auto model = build_model(pipeline.root(), {.seed = 0, .device = at::kMeta});
  EXPECT_EQ(static_cast<int64_t>(nn::regularized_weights(*model).size()), expected.penalties) << model_text;
}

TEST(Structure, MobilenetBelowAPyramidIsSlenderWhereTheOriginalsIs) {
  expect_numbers(pyramid("type: 'ssd_mobilenet_v2_fpn'"), {5026568, 5063368, 1364, 48});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v2_fpn' use_depthwise: true"), {2346760, 2381512, 1364, 52});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn' use_depthwise: true"), {2635592, 2656584, 1364, 44});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn_keras' use_depthwise: true"), {2635592, 2656584, 1364, 40});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn' use_depthwise: true depth_multiplier: 0.5"),
                 {699944, 710760, 1364, 44});
}

TEST(Structure, OnePredictorProjectsEveryMapOnceTheirDepthsDiffer) {
  expect_numbers(ssd("type: 'ssd_mobilenet_v1'", kWeightShared), {6969176, 7001432, 720, 47});
  expect_numbers(ssd("type: 'ssd_mobilenet_v1_keras'", kWeightShared), {6969176, 7001432, 720, 47});
}

TEST(Structure, KerasNormalisesBetweenTheHalvesOfASeparableExtraMap) {
  const std::string predictor = convolutional("kernel_size: 3");
  expect_numbers(ssd("type: 'ssd_mobilenet_v1_keras' use_depthwise: true", predictor), {4379152, 4405648, 720, 47});
  expect_numbers(ssd("type: 'ssd_mobilenet_v2_keras' use_depthwise: true", predictor), {3530704, 3569424, 720, 72});
}

TEST(Structure, KerasHasBiasesWhereABatchNormHasNoOffset) {
  expect_numbers(ssd("type: 'ssd_mobilenet_v1_keras'", convolutional("kernel_size: 3"), kNoOffset),
                 {6011216, 6036560, 720, 47});
  expect_numbers(ssd("type: 'ssd_mobilenet_v1_keras'", convolutional("num_layers_before_predictor: 1", kNoOffset)),
                 {5495120, 5520464, 720, 47});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn_keras'", kNoOffset), {6107976, 6132552, 1364, 40});
}

TEST(Structure, MnasfpnWithoutAMessageHasItsOwnDepth) {
  expect_numbers(pyramid("type: 'ssd_mobilenet_v2_mnasfpn'", kBatchNorm, 6), {2399464, 2445320, 1360, 137});
}

TEST(Structure, ResnetsPyramidIsNeverSeparableAndItsRootInSlimNeverScaled) {
  expect_numbers(pyramid("type: 'ssd_resnet50_v1_fpn' use_depthwise: true"), {26867784, 26923592, 1364, 66});
  expect_numbers(pyramid("type: 'ssd_resnet50_v1_fpn_keras' use_depthwise: true"), {26867784, 26923592, 1364, 66});
  expect_numbers(pyramid("type: 'ssd_resnet50_v1_fpn' depth_multiplier: 0.5"), {6766408, 6794696, 1364, 66});
  expect_numbers(pyramid("type: 'ssd_resnet50_v1_fpn_keras' depth_multiplier: 0.5"), {6756520, 6784744, 1364, 66});
}

TEST(Structure, MobiledetKeepsItsOwnHyperparams) {
  expect_numbers(ssd("type: 'ssd_mobiledet_cpu' override_base_feature_extractor_hyperparams: true", convolutional(""),
                     kBatchNorm, /*side=*/256),
                 {5037624, 5071368, 1026, 115});
}

TEST(Structure, SpaghettinetsAreThoseOfTheirNames) {
  const auto spaghettinet = [](const std::string& size) {
    std::string text =
        ssd("type: 'ssd_spaghettinet' spaghettinet_arch_name: 'spaghettinet_edgetpu_" + size + "'", convolutional(""));
    return text.replace(text.find("num_layers: 6"), 13, "num_layers: 5");
  };
  expect_numbers(spaghettinet("s"), {3156256, 3211290, 726, 118});
  expect_numbers(spaghettinet("m"), {3847152, 3912316, 726, 130});
  expect_numbers(spaghettinet("l"), {5453888, 5544602, 726, 140});
  EXPECT_THAT([&] { expect_numbers(spaghettinet("xl"), {}); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("spaghettinet_arch_name")));
}

TEST(Structure, KerasMobilenetsMakeAShortPyramidOfTheirLastBlocks) {
  const std::string levels = " fpn { min_level: 3 max_level: 4 }";
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn'" + levels, kBatchNorm, 4), {4074184, 4096840, 1280, 36});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v1_fpn_keras'" + levels, kBatchNorm, 4), {4270792, 4293448, 320, 36});
  expect_numbers(pyramid("type: 'ssd_mobilenet_v2_fpn_keras'" + levels, kBatchNorm, 4), {3246728, 3281608, 320, 61});
}

}  // namespace
}  // namespace osprey::models
