// Networks for 8 bits beside the original's: what TensorFlow 1.15's contrib.quantize makes of the graphs of
// tf-models-research-object-detection 2.8.0, with the variables and the picture of the golden files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/golden_model.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/checkpoint.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/models/ssd_meta_arch.h"
#include "support/temp_dir.h"
#include "support/tensorflow_files.h"

namespace osprey {
namespace {

using namespace osprey::testing;

const std::string kHyperparams =
    "conv_hyperparams { activation: RELU_6 regularizer { l2_regularizer { weight: 4e-5 } } initializer { "
    "truncated_normal_initializer { stddev: 0.03 } } batch_norm { scale: true } } ";
const std::string kSixMaps = "ssd_anchor_generator { num_layers: 6 aspect_ratios: [1, 2] }";
const std::string kPyramid =
    "multiscale_anchor_generator { min_level: 3 max_level: 5 aspect_ratios: 1 scales_per_octave: 1 }";

std::string convolutional(const std::string& fields) {
  return "convolutional_box_predictor { kernel_size: 3 use_dropout: false " + fields + kHyperparams + "}";
}

std::string weight_shared(const std::string& fields) {
  return "weight_shared_convolutional_box_predictor { depth: 16 num_layers_before_predictor: 2 kernel_size: 3 "
         "use_dropout: false " +
         fields + kHyperparams + "}";
}

config::Pipeline pipeline_of(const std::string& extractor, const std::string& anchors, const std::string& predictor) {
  return config::parse_pipeline(
      fmt::format(
          "graph_rewriter {{ quantization {{ delay: 0 }} }} model {{ ssd {{ num_classes: 3 image_resizer {{ "
          "fixed_shape_resizer {{ height: 128 width: 128 }} }} feature_extractor {{ {} {} }} anchor_generator {{ {} }} "
          "box_predictor {{ {} }} box_coder {{ faster_rcnn_box_coder {{ y_scale: 10 x_scale: 10 height_scale: 5 "
          "width_scale: 5 }} }} matcher {{ argmax_matcher {{ unmatched_threshold: 0.5 matched_threshold: 0.5 }} }} "
          "similarity_calculator {{ iou_similarity {{}} }} loss {{ classification_loss {{ weighted_sigmoid {{}} }} "
          "localization_loss {{ weighted_smooth_l1 {{}} }} classification_weight: 1 localization_weight: 1 }} "
          "normalize_loss_by_num_matches: true post_processing {{ batch_non_max_suppression {{}} }} }} }}",
          extractor, kHyperparams, anchors, predictor),
      "quantized.config");
}

/// Sums of squares of what a network predicts.
struct Squares {
  double boxes, classes;
};

struct Network {
  std::string extractor, anchors, predictor;
  int64_t weights, maps, sums;  ///< how many of each are rounded
  Squares of_one, of_two;       ///< pictures: in evaluation, in training
  double classification_loss;   ///< in training
};

const std::vector<Network>& networks() {
  static const std::vector<Network> result = {
      {"type: 'ssd_mobilenet_v1'",
       kSixMaps,
       convolutional(""),
       47,
       47,
       0,
       {144.1639, 142.8462},
       {1854.286, 2176.346},
       1401.21},
      {"type: 'ssd_mobilenet_v2' use_depthwise: true",
       kSixMaps,
       convolutional("use_depthwise: true "),
       88,
       88,
       10,
       {5739.511, 7413.889},
       {2066.021, 1967.474},
       1623.942},
      {"type: 'ssd_mobilenet_v2_fpn' use_depthwise: true fpn { min_level: 3 max_level: 5 }",
       kPyramid,
       weight_shared("use_depthwise: true share_prediction_tower: true "),
       71,
       83,
       12,
       {13298.15, 22060.94},
       {4085.869, 3695.85},
       208.6194},
      {"type: 'ssd_mobilenet_v1_fpn' fpn { min_level: 3 max_level: 5 }",
       kPyramid,
       weight_shared(""),
       46,
       50,
       2,
       {1248.08, 252.3482},
       {1780.192, 2175.899},
       173.1303},
      {"type: 'ssd_mobilenet_edgetpu'",
       kSixMaps,
       convolutional(""),
       77,
       77,
       15,
       {11951.3, 11453.65},
       {2005.059, 2243.394},
       1437.484},
      {"type: 'ssd_mobilenet_v1_ppn'",
       kSixMaps,
       weight_shared(""),
       53,
       63,
       0,
       {200.7607, 83.23765},
       {1697.043, 1830.097},
       1624.134},
      {"type: 'ssd_inception_v2' override_base_feature_extractor_hyperparams: true",
       kSixMaps,
       convolutional(""),
       90,
       90,
       0,
       {6937.257, 5605.576},
       {1642.382, 2044.597},
       1337.739},
      {"type: 'ssd_inception_v3' override_base_feature_extractor_hyperparams: true",
       kSixMaps,
       convolutional(""),
       112,
       112,
       0,
       {4599.57, 3856.678},
       {4343.693, 4226.542},
       393.5028},
  };
  return result;
}

std::map<std::string, int64_t> quantizers_of(const torch::nn::Module& model) {
  std::set<std::string> scopes;
  std::map<std::string, int64_t> result;
  for (const auto& item : model.named_modules())
    if (dynamic_cast<const nn::FakeQuantize*>(item.value().get()) != nullptr) {
      const std::string original = nn::tf_quantizer_names(item.key() + ".min").at(0);
      const std::string scope = original.substr(0, original.rfind('/'));
      EXPECT_TRUE(scopes.insert(scope).second) << scope;
      ++result[scope.substr(scope.rfind('/') + 1)];
    }
  return result;
}

TEST(QuantizedModels, RoundWhatTheOriginalRounds) {
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.extractor);
    const auto model = models::build_model(pipeline_of(network.extractor, network.anchors, network.predictor).root(),
                                           {.device = at::kMeta});
    std::map<std::string, int64_t> found = quantizers_of(*model);
    EXPECT_EQ(found["weights_quant"], network.weights);
    EXPECT_EQ(found["act_quant"], network.maps);
    EXPECT_EQ(found["post_activation_bypass_quant"] + found["activation_AddV2_quant"], network.sums);
  }
}

Batch two_pictures() {
  Batch batch = formula_batch(2, 128, 128);
  batch.boxes =
      at::tensor({0.1f, 0.15f, 0.45f, 0.5f, 0.3f, 0.4f, 0.9f, 0.95f, 0.55f, 0.05f, 0.85f, 0.35f, 0.f, 0.f, 0.f, 0.f})
          .view({2, 2, 4});
  batch.classes = at::tensor({2, 0, 2, 0}, at::kLong).view({2, 2});
  batch.weights = at::tensor({1.f, 1.f, 1.f, 0.f}).view({2, 2});
  batch.valid = batch.weights > 0;
  return batch;
}

double classification_loss(models::SsdMetaArch& model, const Predictions& predictions, const Batch& batch) {
  const Losses losses = model.loss(predictions, batch);
  for (const LossTerm& term : losses.terms)
    if (term.name == "Loss/classification_loss") return (term.sum / losses.normalizer.clamp_min(1)).item<double>();
  return -1;
}

void expect_squares(const Predictions& predictions, const Squares& expected, double relative) {
  const auto squares = [](const at::Tensor& values) { return values.to(at::kDouble).square().sum().item<double>(); };
  EXPECT_NEAR(squares(predictions.box_encodings), expected.boxes, relative * expected.boxes);
  EXPECT_NEAR(squares(predictions.class_logits), expected.classes, relative * expected.classes);
}

std::shared_ptr<models::SsdMetaArch> with_formula_values(const config::Pipeline& pipeline) {
  auto model = std::dynamic_pointer_cast<models::SsdMetaArch>(models::build_model(pipeline.root()));
  set_formula_values(*model, {{"runtime", "TF1"}});
  return model;
}

/// A value beside the border of two numbers falls to either side by rounding errors, and what reads it follows, so that
/// these numbers are only about the same: the original's own move by 2 % with other kernels (those of oneDNN).
TEST(QuantizedModels, ComputeWhatTheOriginalComputes) {
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.extractor);
    const auto model = with_formula_values(pipeline_of(network.extractor, network.anchors, network.predictor));
    const at::NoGradGuard no_gradients;
    model->eval();
    expect_squares(model->predict(model->preprocess(formula_batch(1, 128, 128))), network.of_one, 0.05);
    model->train();
    const Batch batch = two_pictures();
    const Predictions predictions = model->predict(model->preprocess(batch));
    expect_squares(predictions, network.of_two, 0.05);
    EXPECT_NEAR(classification_loss(*model, predictions, batch), network.classification_loss,
                0.02 * network.classification_loss);
  }
}

TEST(QuantizedModels, ComputeWhatTheOriginalComputesBeforeTheirDelay) {
  struct Waiting {
    size_t network;
    Squares of_two;
    double classification_loss;
  };
  for (const Waiting& waiting : {Waiting{0, {1930.896, 2142.368}, 1394.22668}, {2, {4224.313, 3925.322}, 210.201889}}) {
    const Network& network = networks().at(waiting.network);
    SCOPED_TRACE(network.extractor);
    config::Pipeline pipeline = pipeline_of(network.extractor, network.anchors, network.predictor);
    pipeline.message->mutable_graph_rewriter()->mutable_quantization()->set_delay(1000);
    const auto model = with_formula_values(pipeline);
    const at::NoGradGuard no_gradients;
    const Batch batch = two_pictures();
    const Predictions predictions = model->predict(model->preprocess(batch));
    expect_squares(predictions, waiting.of_two, 1e-4);
    EXPECT_NEAR(classification_loss(*model, predictions, batch), waiting.classification_loss,
                1e-4 * waiting.classification_loss);
  }
}

/// With `inplace_batchnorm_update` the original takes the identity behind a batch norm for the activation, but in
/// networks whose batch norms have updates of their own.
TEST(QuantizedModels, RoundBeforeTheActivationWhereTheOriginalDoes) {
  const auto least_of = [](const Network& network, const std::string& layer) {
    config::Pipeline pipeline = pipeline_of(network.extractor, network.anchors, network.predictor);
    pipeline.message->mutable_model()->mutable_ssd()->set_inplace_batchnorm_update(true);
    const auto model = with_formula_values(pipeline);
    const at::NoGradGuard no_gradients;
    model->predict(model->preprocess(two_pictures()));
    model->commit_statistics();
    return model->named_buffers()[layer + ".act_quant.min"].item<double>();
  };
  const std::string v1 = "FeatureExtractor.MobilenetV1.", v2 = "FeatureExtractor.MobilenetV2.";
  EXPECT_EQ(least_of(networks()[0], v1 + "Conv2d_5_pointwise"), 0);
  EXPECT_LT(least_of(networks()[0], v1 + "Conv2d_13_pointwise_1_Conv2d_2_1x1_256"), -1);
  EXPECT_LT(least_of(networks()[2], v2 + "expanded_conv_2.expand"), -1);
  EXPECT_LT(least_of(networks()[2], v2 + "fpn.smoothing_1"), -1);
}

TEST(QuantizedModels, AreRefusedByNameWhereTheOriginalRoundsMore) {
  for (const char* const type : {"ssd_mobilenet_v3_large", "ssd_mobiledet_cpu"})
    EXPECT_THAT(
        [&] { models::build_model(pipeline_of(fmt::format("type: '{}'", type), kSixMaps, convolutional("")).root()); },
        ::testing::ThrowsMessage<ConfigError>(
            ::testing::HasSubstr(fmt::format("quantization of {} is not supported yet: graph_rewriter", type))));
  config::Pipeline four_bits = pipeline_of("type: 'ssd_mobilenet_v1'", kSixMaps, convolutional(""));
  four_bits.message->mutable_graph_rewriter()->mutable_quantization()->set_weight_bits(4);
  EXPECT_THAT([&] { models::build_model(four_bits.root()); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("weight_bits: must be 8")));
}

TEST(QuantizedModels, OfKerasTypesAreTheFloatNetwork) {
  const auto model = models::build_model(
      pipeline_of("type: 'ssd_mobilenet_v2_keras'", kSixMaps, convolutional("")).root(), {.device = at::kMeta});
  EXPECT_TRUE(quantizers_of(*model).empty());
}

TEST(QuantizedModels, AndFloatOnesDoNotTakeEachOthersCheckpoints) {
  config::Pipeline pipeline = pipeline_of("type: 'ssd_mobilenet_v1'", kSixMaps, convolutional(""));
  const auto rounded = models::build_model(pipeline.root());
  pipeline.message->mutable_graph_rewriter()->mutable_quantization()->set_weights_per_channel(true);
  const auto by_channels = models::build_model(pipeline.root());
  pipeline.message->clear_graph_rewriter();
  const auto floats = models::build_model(pipeline.root());
  const auto expect_error = [](const models::DetectionModel& from, models::DetectionModel& to, const char* message) {
    checkpoint::Checkpoint stored;
    for (const auto& [name, tensor] : models::variables(from)) stored.tensors["model/" + name] = tensor;
    EXPECT_THAT([&] { checkpoint::load_model(stored, to, false, "ckpt-1"); },
                ::testing::ThrowsMessage<CheckpointError>(::testing::HasSubstr(message)));
  };
  expect_error(*floats, *rounded, "ckpt-1: is of a network that was trained without rounding to 8 bits; --set graph");
  expect_error(*rounded, *floats,
               "ckpt-1: is of a network that was trained for 8 bits, by a config with graph_rewriter");
  expect_error(*rounded, *by_channels,
               "ckpt-1: is of a network that was trained with one range for the weights of each layer; --set "
               "graph_rewriter.quantization.weights_per_channel=false works with it");
  expect_error(*by_channels, *rounded, "of each channel; --set graph_rewriter.quantization.weights_per_channel=true");
  expect_error(*floats, *by_channels, "ckpt-1: is of a network that was trained without rounding to 8 bits; --set");
}

TEST(QuantizedModels, TakeTheRangesOfTheOriginalsCheckpoints) {
  const auto model =
      models::build_model(pipeline_of(networks()[2].extractor, networks()[2].anchors, networks()[2].predictor).root());
  const at::NoGradGuard no_gradients;
  std::vector<TensorFlowVariable> stored{{"beta1_power", at::ones({}), ""}};
  std::map<std::string, at::Tensor> expected;
  for (const auto& [name, tensor] : models::variables(*model)) {
    if (!tensor.is_floating_point()) continue;
    const at::Tensor values = expected[name] = at::rand_like(tensor);
    const std::vector<std::string> of_range = nn::tf_quantizer_names(name);
    stored.push_back({of_range.empty() ? nn::tf_name(name) : of_range[0], nn::to_tf_layout(name, values), ""});
  }
  const TempDir folder;
  write_tensorflow(folder / "rounded.ckpt", stored);
  checkpoint::load_model(folder / "rounded.ckpt", *model, false);
  for (const auto& [name, tensor] : models::variables(*model)) {
    if (tensor.is_floating_point())
      EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
    else
      EXPECT_GT(tensor.item<int64_t>(), 100'000) << name << ", which counts steps";
  }
}

TEST(QuantizedModels, StartFromFloatCheckpoints) {
  const auto model = models::build_model(pipeline_of("type: 'ssd_mobilenet_v1'", kSixMaps, convolutional("")).root(),
                                         {.device = at::kMeta});
  for (const auto type :
       {models::RestoreType::kClassification, models::RestoreType::kDetection, models::RestoreType::kFull})
    for (const auto& [theirs, ours] : model->restore_map(type)) EXPECT_FALSE(nn::is_of_quantizer(ours)) << ours;
}

}  // namespace
}  // namespace osprey
