// Feature pyramids and the predictor that is shared among their levels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/nn/builder.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/neck.h"
#include "osprey/protos/box_predictor.pb.h"
#include "osprey/protos/ssd.pb.h"
#include "support/golden.h"

namespace osprey::nn {
namespace {

using ::osprey::testing::expect_close;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kHyperparams =
    "conv_hyperparams { activation: RELU_6 regularizer { l2_regularizer { weight: 0.1 } } "
    "initializer { truncated_normal_initializer { stddev: 0.1 } } batch_norm { scale: true } }";

std::shared_ptr<FeatureExtractor> extractor(const std::string& text) {
  const auto parsed = config::parse<proto::SsdFeatureExtractor>(text + " " + kHyperparams, "extractor");
  const auto result = build_feature_extractor(parsed.node(), {});
  initialize_model(*result, 1);
  result->eval();
  return result;
}

std::shared_ptr<BoxPredictor> predictor(const std::string& fields, const BoxPredictorOptions& model) {
  const auto parsed = config::parse<proto::BoxPredictor>(
      "weight_shared_convolutional_box_predictor { " + fields + " " + kHyperparams + " }", "predictor");
  const auto result = build_box_predictor(parsed.node(), model);
  initialize_model(*result, 1);
  result->eval();
  return result;
}

const BoxPredictorOptions kTwoLevels{.num_class_slots = 4, .depths = {8, 8}, .anchors_per_location = {3, 3}};

std::vector<std::string> names(const torch::nn::Module& module) {
  std::vector<std::string> result;
  for (const auto& item : module.named_parameters()) result.push_back(item.key());
  return result;
}

TEST(FeaturePyramid, HalvesFromLevelToLevelAlsoBeyondTheBackbone) {
  const auto pyramid = extractor(
      "type: 'ssd_mobilenet_v1_fpn' depth_multiplier: 0.25 min_depth: 8 fpn { min_level: 3 max_level: 7 "
      "additional_layer_depth: 64 }");
  EXPECT_THAT(pyramid->depths(), ElementsAre(16, 16, 16, 16, 16));
  std::vector<int64_t> sides;
  for (const at::Tensor& map : pyramid->forward(at::zeros({1, 3, 128, 128}), {})) sides.push_back(map.size(2));
  EXPECT_THAT(sides, ElementsAre(16, 8, 4, 2, 1));
}

TEST(FeaturePyramid, MaySkipTheCoarseLevels) {
  const auto pyramid =
      extractor("type: 'ssd_resnet18_v1_fpn' depth_multiplier: 0.25 min_depth: 8 fpn { min_level: 2 max_level: 4 }");
  std::vector<int64_t> sides;
  for (const at::Tensor& map : pyramid->forward(at::zeros({1, 3, 64, 64}), {})) sides.push_back(map.size(2));
  EXPECT_THAT(sides, ElementsAre(16, 8, 4));
}

TEST(FeaturePyramid, SaysWhichSidesDoNotHalve) {
  const auto pyramid = extractor("type: 'ssd_mobilenet_v1_fpn' depth_multiplier: 0.25 min_depth: 8");
  EXPECT_THAT(
      [&] {
        pyramid->forward(at::zeros({1, 3, 100, 100}), {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("7x7 is not twice 4x4")));
  const auto padded = extractor("type: 'ssd_mobilenet_v1_fpn' depth_multiplier: 0.25 min_depth: 8 pad_to_multiple: 32");
  EXPECT_EQ(padded->forward(at::zeros({1, 3, 100, 100}), {})[0].size(2), 16);
}

/// Endpoints of one channel.
class OneChannel final : public Backbone {
 public:
  Endpoints forward(const at::Tensor&, const std::set<std::string>&, const Context&) override { return {}; }
  int64_t depth(const std::string&) const override { return 1; }
  std::string scope() const override { return "OneChannel"; }
};

TEST(FeaturePyramid, WithExplicitPaddingCutsOffWhatTheCoarserLevelHasMore) {
  const at::NoGradGuard no_gradients;
  Hyperparams plain;
  plain.batch_norm.reset();
  plain.activation = Activation::kNone;
  const auto neck = make_feature_pyramid_neck(
      {.endpoints = {"fine", "coarse"}, .depth = 1, .use_explicit_padding = true}, OneChannel(), plain);
  for (at::Tensor& parameter : neck->parameters()) {  // all convolutions leave their map as it is
    parameter.zero_();
    if (parameter.dim() == 4) parameter[0][0][parameter.size(2) / 2][parameter.size(3) / 2] = 1;
  }
  const at::Tensor fine = at::rand({1, 1, 3, 5}),
                   coarse = at::tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}).view({1, 1, 2, 3});
  const at::Tensor added = at::tensor({1.0f, 1.0f, 2.0f, 2.0f, 3.0f,  //
                                       1.0f, 1.0f, 2.0f, 2.0f, 3.0f,  //
                                       4.0f, 4.0f, 5.0f, 5.0f, 6.0f})
                               .view({1, 1, 3, 5});
  const auto maps = neck->forward({{"fine", fine}, {"coarse", coarse}}, {});
  expect_close(maps[0], fine + added, 1e-6, 0, "the finer level");
  expect_close(maps[1], coarse, 1e-6, 0, "the coarser level");
  EXPECT_THAT(
      [&] {
        neck->forward({{"fine", at::rand({1, 1, 5, 5})}, {"coarse", coarse}}, {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("5x5 is not twice 2x3")));
}

TEST(FeaturePyramid, NamesLevelsThatTheBackboneDoesNotHave) {
  EXPECT_THAT([] { extractor("type: 'ssd_mobilenet_v1_fpn' fpn { min_level: 1 }"); },
              ThrowsMessage<ConfigError>(HasSubstr("fpn.min_level: must be in [2, 5]")));
  EXPECT_THAT([] { extractor("type: 'ssd_resnet50_v1_fpn' fpn { min_level: 4 max_level: 3 }"); },
              ThrowsMessage<ConfigError>(HasSubstr("fpn.max_level")));
}

TEST(FeatureExtractor, BringsPixelsToTheStatisticsOfTheConfig) {
  const auto own = extractor(
      "type: 'ssd_resnet18_v1_fpn' depth_multiplier: 0.125 image_normalization { mean: 100 mean: 110 mean: 120 "
      "deviation: 50 deviation: 55 deviation: 60 }");
  EXPECT_THAT(own->normalization().scale, ElementsAre(1.0f / 50, 1.0f / 55, 1.0f / 60));
  EXPECT_THAT(own->normalization().offset, ElementsAre(-2, -2, -2));
  const auto mean =
      extractor("type: 'ssd_mobilenet_v2' depth_multiplier: 0.125 image_normalization { mean: 1 mean: 2 mean: 3 }");
  EXPECT_THAT(mean->normalization().scale, ElementsAre(1, 1, 1));
  EXPECT_THAT(mean->normalization().offset, ElementsAre(-1, -2, -3));
  EXPECT_THAT([] { extractor("type: 'ssd_mobilenet_v2' image_normalization { mean: 1 }"); },
              ThrowsMessage<ConfigError>(HasSubstr("image_normalization.mean: must have three values")));
  EXPECT_THAT(
      [] { extractor("type: 'ssd_mobilenet_v2' image_normalization { mean: [1, 2, 3] deviation: [1, 0, 1] }"); },
      ThrowsMessage<ConfigError>(HasSubstr("image_normalization.deviation: must be > 0")));
}

TEST(FeatureExtractor, OfAPyramidRefusesANumberOfLayers) {
  for (const char* type : {"ssd_resnet18_v1_fpn", "ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_mnasfpn",
                           "ssd_efficientnet-b0_bifpn_keras"})
    EXPECT_THAT([&] { extractor(std::string("num_layers: 4 type: '") + type + "'"); },
                ThrowsMessage<ConfigError>(HasSubstr(std::string("num_layers: is not used by ") + type)));
}

TEST(FeatureExtractor, HasAResidualNetworkOrSaysSo) {
  const std::string wish = " residual_network { zero_init_last_batch_norm: true stride_place: FIRST_3X3_CONVOLUTION }";
  const auto identity = extractor("type: 'ssd_resnet18_v1_fpn' depth_multiplier: 0.125" + wish);
  int64_t zeros = 0;
  for (const auto& item : identity->named_parameters())
    zeros += item.key().ends_with("gamma") && item.value().count_nonzero().item<int64_t>() == 0;
  EXPECT_EQ(zeros, 8);
  EXPECT_THAT([&] { extractor("type: 'ssd_mobilenet_v1_fpn'" + wish); },
              ThrowsMessage<ConfigError>(HasSubstr("residual_network: is not used by ssd_mobilenet_v1_fpn")));
  const auto plain = config::parse<proto::SsdFeatureExtractor>(
      "type: 'ssd_resnet18_v1_fpn' override_base_feature_extractor_hyperparams: true "
      "conv_hyperparams { initializer { truncated_normal_initializer {} } }" +
          wish,
      "extractor");
  EXPECT_THAT([&] { build_feature_extractor(plain.node(), {}); },
              ThrowsMessage<ConfigError>(HasSubstr("zero_init_last_batch_norm: needs a batch norm")));
}

TEST(MultiResolution, NamesTheHalvesOfASeparableMapAsKerasDoes) {
  const auto extra =
      extractor("type: 'ssd_mobilenet_v2_keras' depth_multiplier: 0.25 num_layers: 3 use_depthwise: true");
  std::vector<std::string> keras_names;
  const std::string prefix = "ssd_mobile_net_v2_keras_feature_extractor/FeatureMaps/layer_19_2_Conv2d_2_3x3_s2_128_";
  for (const std::string& name : names(*extra))
    if (name.starts_with("MobilenetV2.FeatureMaps.layer_19_2"))
      keras_names.push_back(keras_name("FeatureExtractor." + name).value().substr(prefix.size()));
  EXPECT_THAT(keras_names, ::testing::UnorderedElementsAre("depthwise_conv/depthwise_kernel",
                                                           "depthwise_batchnorm/gamma", "depthwise_batchnorm/beta",
                                                           "conv/kernel", "batchnorm/gamma", "batchnorm/beta"));
}

TEST(PoolingPyramid, PoolsOneMapAgainAndAgain) {
  const auto pyramid = extractor("type: 'ssd_mobilenet_v1_ppn' depth_multiplier: 0.25 min_depth: 8 num_layers: 3");
  const auto maps = pyramid->forward(at::rand({1, 3, 96, 96}), {});
  ASSERT_EQ(maps.size(), 3u);
  expect_close(maps[1], at::max_pool2d(maps[0], {2, 2}, {2, 2}), 0, 0, "the second level");
  EXPECT_EQ(maps[2].size(2), 2);
}

TEST(PoolingPyramid, BringsResnetsMapToItsOwnDepth) {
  const auto pyramid = extractor("type: 'ssd_resnet50_v1_ppn'");
  EXPECT_THAT(pyramid->depths(), ElementsAre(1024, 1024, 1024, 1024, 1024, 1024));
  EXPECT_THAT(names(*pyramid), ::testing::Contains("resnet_v1_50.Base_Conv2d_1x1_1024.BatchNorm.gamma"));
  EXPECT_EQ(pyramid->forward(at::zeros({1, 3, 129, 129}), {}).front().size(2), 9);
  EXPECT_THAT([] { extractor("type: 'ssd_resnet50_v1_ppn' depth_multiplier: 0.5"); },
              ThrowsMessage<ConfigError>(HasSubstr("depth_multiplier: must be 1 for ssd_resnet50_v1_ppn")));
}

TEST(WeightSharedPredictor, TreatsEveryLevelAlike) {
  const auto shared = predictor("depth: 8 num_layers_before_predictor: 2 class_prediction_bias_init: -2", kTwoLevels);
  const at::Tensor map = at::rand({2, 8, 4, 4});
  const auto output = shared->forward({map, map}, {});
  ASSERT_EQ(output.box_encodings.sizes(), at::IntArrayRef({2, 96, 4}));
  ASSERT_EQ(output.class_logits.sizes(), at::IntArrayRef({2, 96, 4}));
  expect_close(output.class_logits.slice(1, 0, 48), output.class_logits.slice(1, 48), 0, 0, "levels");
  EXPECT_LT(output.class_logits.mean().item<float>(), -1);
}

TEST(WeightSharedPredictor, NormalisesEveryLevelByItself) {
  EXPECT_THAT(names(*predictor("depth: 8 num_layers_before_predictor: 1 share_prediction_tower: true", kTwoLevels)),
              ::testing::UnorderedElementsAre(
                  "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.weights",
                  "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.BatchNorm.feature_0.gamma",
                  "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.BatchNorm.feature_0.beta",
                  "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.BatchNorm.feature_1.gamma",
                  "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.BatchNorm.feature_1.beta",
                  "WeightSharedConvolutionalBoxPredictor.BoxPredictor.weights",
                  "WeightSharedConvolutionalBoxPredictor.BoxPredictor.biases",
                  "WeightSharedConvolutionalBoxPredictor.ClassPredictor.weights",
                  "WeightSharedConvolutionalBoxPredictor.ClassPredictor.biases"));
}

TEST(WeightSharedPredictor, ProjectsEveryLevelOnceTheirDepthsDiffer) {
  BoxPredictorOptions model = kTwoLevels;
  model.depths = {12, 8, 8};
  model.anchors_per_location = {3, 3, 3};
  const auto shared = predictor("depth: 8 num_layers_before_predictor: 1", model);
  const auto parameters = shared->named_parameters();
  for (size_t level = 0; level < 3; ++level) {
    const std::string scope =
        "WeightSharedConvolutionalBoxPredictor.ProjectionLayer.conv2d_" + std::to_string(level) + ".weights";
    EXPECT_EQ(parameters[scope].sizes(), at::IntArrayRef({8, model.depths[level], 1, 1}));
  }
  const auto output = shared->forward({at::rand({1, 12, 2, 2}), at::rand({1, 8, 2, 2}), at::rand({1, 8, 1, 1})}, {});
  EXPECT_EQ(output.box_encodings.size(1), 27);
}

TEST(WeightSharedPredictor, ConvertsScoresOnlyOutsideOfTraining) {
  const std::string tower = "depth: 8 num_layers_before_predictor: 0 ";
  const auto logits = predictor(tower, kTwoLevels), scores = predictor(tower + "score_converter: SIGMOID", kTwoLevels);
  const std::vector<at::Tensor> maps = {at::rand({1, 8, 2, 2}), at::rand({1, 8, 1, 1})};
  const at::Tensor expected = logits->forward(maps, {}).class_logits;
  expect_close(scores->forward(maps, {}).class_logits, at::sigmoid(expected), 0, 0, "evaluation");
  scores->train();
  expect_close(scores->forward(maps, {}).class_logits, expected, 0, 0, "training");
}

TEST(WeightSharedPredictor, KerasPenalisesSeparableConvolutionsOnlyWhereAsked) {
  BoxPredictorOptions keras = kTwoLevels;
  keras.keras = true;
  const std::string fields = "depth: 8 num_layers_before_predictor: 1 use_depthwise: true share_prediction_tower: true";
  const auto penalised = [&](const std::string& more, const BoxPredictorOptions& model) {
    return regularized_weights(*predictor(fields + more, model)).size();
  };
  EXPECT_EQ(penalised("", kTwoLevels), 6u);
  EXPECT_EQ(penalised("", keras), 1u);  // the depthwise half of the tower
  EXPECT_EQ(penalised(" apply_conv_hyperparams_pointwise: true", keras), 2u);
  EXPECT_EQ(penalised(" apply_conv_hyperparams_pointwise: true apply_conv_hyperparams_to_heads: true", keras), 6u);
}

TEST(WeightSharedPredictor, ClipsBoxEncodings) {
  const auto shared = predictor("depth: 8 box_encodings_clip_range { min: -0.01 max: 0.02 }", kTwoLevels);
  const auto output = shared->forward({at::randn({1, 8, 4, 4}), at::randn({1, 8, 4, 4})}, {});
  EXPECT_FLOAT_EQ(output.box_encodings.min().item<float>(), -0.01f);
  EXPECT_FLOAT_EQ(output.box_encodings.max().item<float>(), 0.02f);
}

TEST(WeightSharedPredictor, RefusesLevelsWithDifferentNumbersOfAnchors) {
  BoxPredictorOptions model = kTwoLevels;
  model.anchors_per_location = {3, 6};
  EXPECT_THAT([&] { predictor("depth: 8", model); },
              ThrowsMessage<ConfigError>(HasSubstr("every feature map must have the same number of anchors")));
  EXPECT_THAT([] { predictor("num_layers_before_predictor: 2", kTwoLevels); },
              ThrowsMessage<ConfigError>(HasSubstr("depth: must be >= 1")));
}

}  // namespace
}  // namespace osprey::nn
