#include "osprey/models/ssd_meta_arch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/models/summary.h"
#include "osprey/nn/multiply_adds.h"
#include "support/golden.h"

namespace osprey::models {
namespace {

using ::osprey::testing::expect_close;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A small MobileNet SSD of three classes on 64x64 pixels.
const char* const kConfig = R"(model { ssd {
  num_classes: 3
  image_resizer { keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true } }
  feature_extractor {
    type: "ssd_mobilenet_v1" depth_multiplier: 0.25 min_depth: 8 num_layers: 4
    conv_hyperparams { activation: RELU_6 regularizer { l2_regularizer { weight: 0.001 } } batch_norm { scale: true decay: 0.9 } }
    override_base_feature_extractor_hyperparams: true
  }
  anchor_generator { ssd_anchor_generator { num_layers: 4 aspect_ratios: [1, 2, 0.5] } }
  box_predictor { convolutional_box_predictor {
    use_dropout: true dropout_keep_probability: 0.5
    conv_hyperparams { activation: RELU_6 regularizer { l2_regularizer { weight: 0.001 } }
                       initializer { truncated_normal_initializer { stddev: 0.03 } } }
  } }
  box_coder { faster_rcnn_box_coder {} }
  matcher { argmax_matcher { matched_threshold: 0.5 unmatched_threshold: 0.5 force_match_for_each_row: true } }
  similarity_calculator { iou_similarity {} }
  loss { classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } }
  post_processing { score_converter: SIGMOID batch_non_max_suppression { max_detections_per_class: 20 max_total_detections: 20 } }
} })";

config::Pipeline pipeline(const std::vector<std::string>& overrides = {}) {
  return config::parse_pipeline(kConfig, "small.config", overrides);
}

std::shared_ptr<DetectionModel> small(const std::vector<std::string>& overrides = {}, uint64_t seed = 1) {
  return build_model(pipeline(overrides).root(), {.seed = seed});
}

/// Two pictures, the second 64 x 32; one and two boxes in four rows.
Batch small_batch() {
  at::manual_seed(1);
  Batch batch;
  batch.images = at::randint(0, 256, {2, 3, 64, 64}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({64, 64, 64, 32}, at::kLong).view({2, 2});
  batch.boxes = at::zeros({2, 4, 4});
  batch.boxes[0][0] = at::tensor({0.1f, 0.1f, 0.6f, 0.7f});
  batch.boxes[1][0] = at::tensor({0.2f, 0.0f, 0.9f, 1.0f});
  batch.boxes[1][1] = at::tensor({0.5f, 0.5f, 0.8f, 0.9f});
  batch.classes = at::tensor({2, 0, 0, 0, 1, 0, 0, 0}, at::kLong).view({2, 4});
  batch.valid = at::tensor({1, 0, 0, 0, 1, 1, 0, 0}, at::kLong).view({2, 4}).to(at::kBool);
  batch.weights = batch.valid.to(at::kFloat);
  batch.image_weights = at::ones({2});
  batch.example_keys = at::tensor({100, 101}, at::kLong);
  batch.ids = {"first", "second"};
  return batch;
}

double total(const Losses& losses) {
  double sum = 0;
  for (const LossTerm& term : losses.terms) sum += term.sum.item<double>();
  return sum;
}

TEST(BuildModel, GivesEqualWeightsForEqualSeeds) {
  const auto a = variables(*small()), b = variables(*small()), c = variables(*small({}, 2));
  ASSERT_EQ(a.size(), b.size());
  bool differs = false;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
    EXPECT_TRUE(a[i].second.isfinite().all().item<bool>()) << a[i].first;
    differs |= !at::equal(a[i].second, c[i].second);
  }
  EXPECT_TRUE(differs);
}

TEST(BuildModel, NamesWhatIsNotBuilt) {
  EXPECT_THAT([] { small({"model.ssd.feature_extractor.type=ssd_mobilenet_v9"}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("ssd_mobilenet_v9"),
                                               HasSubstr("is not supported yet: model.ssd.feature_extractor.type"))));
  EXPECT_THAT([] { build_model(config::parse_pipeline("model { faster_rcnn { num_classes: 3 } }").root()); },
              ThrowsMessage<ConfigError>(HasSubstr("is not supported yet: model.faster_rcnn")));
  EXPECT_THAT(
      [] {
        small({"model.ssd.add_background_class=false", "model.ssd.explicit_background_class=true"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("is not supported yet: model.ssd.explicit_background_class")));
  EXPECT_THAT([] { build_model(config::parse_pipeline("model { }").root()); },
              ThrowsMessage<ConfigError>(HasSubstr("model")));
}

TEST(BuildModel, ChecksWhatTheFieldsSayOfEachOther) {
  EXPECT_THAT([] { small({"model.ssd.num_classes=0"}); }, ThrowsMessage<ConfigError>(HasSubstr("num_classes")));
  EXPECT_THAT([] { small({"model.ssd.feature_extractor.num_layers=3"}); },
              ThrowsMessage<ConfigError>(HasSubstr("anchor_generator")));
  EXPECT_THAT([] { small({"model.ssd.feature_extractor.depth_multiplier=0"}); },
              ThrowsMessage<ConfigError>(HasSubstr("depth_multiplier")));
  EXPECT_THAT([] { small({"model.ssd.box_predictor.convolutional_box_predictor.box_code_size=6"}); },
              ThrowsMessage<ConfigError>(HasSubstr("box_predictor")));
  EXPECT_THAT(
      [] {
        small({"model.ssd.image_resizer.fixed_shape_resizer.height=32",
               "model.ssd.image_resizer.fixed_shape_resizer.width=32"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("at least 33 pixels")));
}

/// What a model says of a batch: codes, logits, anchors, losses, and what it finds.
std::vector<at::Tensor> said_of(DetectionModel& model, const Batch& batch) {
  const Predictions predictions = model.predict(model.preprocess(batch));
  const Losses losses = model.loss(predictions, batch);
  const Detections found = model.postprocess(predictions, batch.true_shapes);
  std::vector<at::Tensor> result = {predictions.box_encodings,
                                    predictions.class_logits,
                                    predictions.anchors,
                                    losses.normalizer,
                                    found.boxes,
                                    found.scores,
                                    found.classes};
  for (const LossTerm& term : losses.terms) result.push_back(term.sum);
  return result;
}

TEST(SsdMetaArch, OfAnySizeIsWhatANetworkOfTheSizeOfTheBatchIs) {
  const auto any = small({"model.ssd.image_resizer={identity_resizer {}}"});
  EXPECT_TRUE(any->any_input_size());
  const Batch square = small_batch();
  Batch tall = square;
  tall.images = at::cat({square.images, square.images.slice(2, 0, 37)}, 2).contiguous(at::MemoryFormat::ChannelsLast);
  tall.true_shapes = at::tensor({101, 60, 90, 64}, at::kLong).view({2, 2});
  const auto small_square = small();
  EXPECT_FALSE(small_square->any_input_size());
  // Padded as well, but with a canvas of 101 x 64: no picture of a square resizer has one, so that of both is 101.
  Batch wide = tall;
  wide.images = at::zeros({2, 3, 101, 101}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  wide.images.slice(3, 0, 64).copy_(tall.images);
  const std::string keeping = "model.ssd.image_resizer.keep_aspect_ratio_resizer.";
  const auto small_wide = small({keeping + "max_dimension=101"});
  Batch full = tall;
  full.true_shapes = at::tensor({101, 64, 101, 64}, at::kLong).view({2, 2});
  const auto small_tall = small({"model.ssd.image_resizer={fixed_shape_resizer { height: 101 width: 64 }}"});
  for (const bool training : {true, false}) {
    any->train(training);
    small_square->train(training);
    small_wide->train(training);
    small_tall->train(training);
    for (const auto& [batch, fixed] :
         {std::pair(square, small_square), {wide, small_wide}, {full, small_tall}, {square, small_square}}) {
      const std::vector<at::Tensor> is = said_of(*any, batch), wanted = said_of(*fixed, batch);
      ASSERT_EQ(is.size(), wanted.size());
      for (size_t i = 0; i < is.size(); ++i) EXPECT_TRUE(at::equal(is[i], wanted[i])) << i;
    }
    const Predictions predictions = any->predict(any->preprocess(tall));
    EXPECT_EQ(predictions.feature_map_shapes[0], (std::array<int64_t, 2>{7, 4})) << "of 101 x 64 at a stride of 16";
    EXPECT_EQ(predictions.input_size, (std::array<int64_t, 2>{101, 64}));
  }
}

TEST(BuildModel, APyramidForPicturesOfAnySizeNeedsPaddingToWhatHalves) {
  const std::vector<std::string> pyramid = {
      "model.ssd.image_resizer={identity_resizer {}}",
      "model.ssd.feature_extractor.num_layers=", "model.ssd.feature_extractor.type=ssd_mobilenet_v1_fpn"};
  EXPECT_THAT([&] { small(pyramid); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("image_resizer"), HasSubstr("353 x 641"),
                                               HasSubstr("the levels must halve"), HasSubstr("pad_to_multiple"))));
  std::vector<std::string> padded = pyramid;
  padded.emplace_back("model.ssd.feature_extractor.pad_to_multiple=32");
  EXPECT_THAT([&] { small(padded); }, ThrowsMessage<ConfigError>(HasSubstr("anchor_generator"))) << "the next mistake";
}

TEST(SsdMetaArch, OfAnySizeNamesAPictureThatIsTooSmall) {
  const auto any = small({"model.ssd.image_resizer={identity_resizer {}}"});
  Batch batch = small_batch();
  batch.images = batch.images.slice(2, 0, 20).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_THAT([&] { any->preprocess(batch); },
              ThrowsMessage<DataError>(
                  AllOf(HasSubstr("image 'first'"), HasSubstr("20 x 64 pixels"), HasSubstr("at least 33 a side"))));
}

TEST(SsdMetaArch, ClearsThePaddingAfterNormalisation) {
  const auto model = small();
  const Batch batch = small_batch();
  const at::Tensor images = model->preprocess(batch).images;
  EXPECT_TRUE(images[1].slice(2, 32).eq(0).all().item<bool>());
  expect_close(images[1].slice(2, 0, 32), batch.images[1].slice(2, 0, 32).to(at::kFloat) * (2.0 / 255) - 1, 0, 1e-6,
               "picture");
  EXPECT_TRUE(images.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(SsdMetaArch, SumsOverImagesAndLeavesOutThoseOfWeightZero) {
  const auto model = small();
  model->eval();
  Batch batch = small_batch();
  const auto loss_of = [&](const Batch& part) { return model->loss(model->predict(model->preprocess(part)), part); };
  const Losses both = loss_of(batch), first = loss_of(slice(batch, 0, 1)), second = loss_of(slice(batch, 1, 2));
  EXPECT_NEAR(total(both), total(first) + total(second), 1e-4 * total(both));
  EXPECT_NEAR(both.normalizer.item<double>(), first.normalizer.item<double>() + second.normalizer.item<double>(), 1e-6);
  EXPECT_GE(second.normalizer.item<double>(), 2);
  batch.image_weights = at::tensor({1.0f, 0.0f});
  const Losses weighted = loss_of(batch);
  EXPECT_NEAR(total(weighted), total(first), 1e-4 * total(first));
  EXPECT_NEAR(weighted.normalizer.item<double>(), first.normalizer.item<double>(), 1e-6);
}

TEST(SsdMetaArch, MorePaddedRowsChangeNothing) {
  const auto model = small();
  model->eval();
  Batch batch = small_batch();
  const Predictions predictions = model->predict(model->preprocess(batch));
  const double before = total(model->loss(predictions, batch));
  const auto pad = [](const at::Tensor& rows) { return at::cat({rows, at::zeros_like(rows)}, 1); };
  batch.boxes = pad(batch.boxes);
  batch.classes = pad(batch.classes);
  batch.valid = pad(batch.valid);
  batch.weights = pad(batch.weights);
  EXPECT_EQ(total(model->loss(predictions, batch)), before);
}

TEST(SsdMetaArch, DropoutFollowsTheExampleNotItsPlace) {
  // Batch norm would couple the images, so it is frozen here; dropout stays.
  const auto model = small({"model.ssd.freeze_batchnorm=true"});
  model->train();
  const Batch batch = small_batch();
  const auto logits = [&](const Batch& part) { return model->predict(model->preprocess(part)).class_logits; };
  const at::Tensor whole = logits(batch), size = whole.abs().max();
  expect_close(logits(slice(batch, 1, 2))[0] / size, whole[1] / size, 0, 1e-4, "second image alone");
  Batch other = batch;
  other.example_keys = batch.example_keys + 50;
  EXPECT_GT(((logits(other) - whole) / size).abs().max().item<double>(), 0.01);
}

TEST(SsdMetaArch, SharedPredictorsConvertScoresInEvaluationAlone) {
  const std::string predictor = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.";
  const auto model = small({"model.ssd.anchor_generator.ssd_anchor_generator.reduce_boxes_in_lowest_layer=false",
                            predictor + "score_converter=SIGMOID", predictor + "depth=8"});
  const auto lowest = [&] { return model->predict(model->preprocess(small_batch())).class_logits.min().item<float>(); };
  model->train();
  EXPECT_LT(lowest(), 0);
  model->eval();
  EXPECT_GE(lowest(), 0);
}

TEST(SsdMetaArch, ConfidencesDecideInTrainingAndInKerassEvaluation) {
  const std::string confidences = "model.ssd.use_confidences_as_targets=true";
  Batch batch = small_batch();
  batch.confidences = batch.valid.to(at::kFloat).neg();
  for (const std::string type : {"ssd_mobilenet_v1", "ssd_mobilenet_v1_keras"}) {
    const auto model = small({"model.ssd.feature_extractor.type=\"" + type + "\"", confidences});
    const auto weight = [&] {
      const Predictions predictions = model->predict(model->preprocess(batch));
      return dynamic_cast<SsdMetaArch&>(*model).assign_targets(predictions, batch).box_weights.sum().item<float>();
    };
    model->train();
    EXPECT_EQ(weight(), 0) << "boxes of confidence -1 are negatives";
    model->eval();
    EXPECT_EQ(weight() == 0, type.ends_with("_keras"));
  }
}

TEST(SsdMetaArch, OnlySampledAnchorsHaveLosses) {
  // With positives alone the losses are those that background anchors of weight 0 leave.
  const std::string sampler = "model.ssd.loss.random_example_sampler.positive_sample_fraction=";
  const auto model = small();
  model->train();
  const Batch batch = small_batch();
  const Predictions predictions = model->predict(model->preprocess(batch));
  const auto loss_with = [&](const std::string& override) {
    const auto other = small({override});
    other->train();
    return other->loss(predictions, batch);
  };
  const Losses all = model->loss(predictions, batch), half = loss_with(sampler + "0.5"),
               positives = loss_with(sampler + "1"), weighted = loss_with("model.ssd.negative_class_weight=0");
  EXPECT_TRUE(positives.terms[0].sum.equal(all.terms[0].sum)) << "negatives have no box loss";
  EXPECT_TRUE(positives.normalizer.equal(all.normalizer));
  EXPECT_NEAR(positives.terms[1].sum.item<double>(), weighted.terms[1].sum.item<double>(), 1e-4);
  EXPECT_GT(half.terms[1].sum.item<double>(), positives.terms[1].sum.item<double>());
  EXPECT_LT(half.terms[1].sum.item<double>(), all.terms[1].sum.item<double>());
}

TEST(SsdMetaArch, EveryVariableReceivesAGradient) {
  const auto model = small();
  model->train();
  const Batch batch = small_batch();
  const Losses losses = model->loss(model->predict(model->preprocess(batch)), batch);
  (losses.terms[0].sum + losses.terms[1].sum).backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

TEST(SsdMetaArch, DetectionsArePaddedAndWithinThePicture) {
  const auto model = small({"model.ssd.post_processing.batch_non_max_suppression.score_threshold=0.4"});
  model->eval();
  const Batch batch = small_batch();
  const Predictions predictions = model->predict(model->preprocess(batch));
  const Detections detections = model->postprocess(predictions, batch.true_shapes);
  EXPECT_EQ(detections.boxes.sizes(), (std::vector<int64_t>{2, 20, 4}));
  EXPECT_GE(detections.boxes.min().item<double>(), 0);
  EXPECT_LE(detections.boxes.max().item<double>(), 1 + 1e-6);
  const Candidates candidates = model->candidates(predictions);
  EXPECT_EQ(candidates.scores.size(2), 3);
  EXPECT_EQ(candidates.boxes.sizes().slice(0, 2), candidates.scores.sizes().slice(0, 2));
}

TEST(SsdMetaArch, RestoresTheBackboneTheExtractorOrAll) {
  const auto model = small();
  const auto classification = model->restore_map(RestoreType::kClassification);
  EXPECT_EQ(classification.at("MobilenetV1.Conv2d_0.weights"), "FeatureExtractor.MobilenetV1.Conv2d_0.weights");
  EXPECT_EQ(classification.at("MobilenetV1.Conv2d_0.BatchNorm.moving_mean"),
            "FeatureExtractor.MobilenetV1.Conv2d_0.BatchNorm.moving_mean");
  for (const auto& [from, to] : classification)
    EXPECT_EQ(to.find("_Conv2d_2_"), std::string::npos) << "a layer of the neck: " << to;
  const auto detection = model->restore_map(RestoreType::kDetection);
  EXPECT_EQ(detection.count("BoxPredictor_0.ClassPredictor.weights"), 0u);
  EXPECT_EQ(detection.count("FeatureExtractor.MobilenetV1.Conv2d_13_pointwise_1_Conv2d_2_1x1_64.weights"), 1u);
  EXPECT_EQ(model->restore_map(RestoreType::kFull).size(), variables(*model).size());
  EXPECT_EQ(
      small({"train_config.load_all_detection_checkpoint_vars=true"})->restore_map(RestoreType::kDetection).size(),
      variables(*model).size());
}

TEST(Summary, IsWhatAForwardPassGives) {
  const Summary summary = summarize_model(pipeline().root());
  const auto model = small();
  model->eval();
  const nn::MultiplyAddCounter counter;
  const Predictions predictions = model->predict(model->preprocess(slice(small_batch(), 0, 1)));
  EXPECT_EQ(summary.multiply_adds, counter.count());
  EXPECT_EQ(summary.num_anchors, predictions.anchors.size(0));
  EXPECT_EQ(summary.box_encodings_shape, predictions.box_encodings.sizes().vec());
  EXPECT_EQ(summary.class_predictions_shape, predictions.class_logits.sizes().vec());
  EXPECT_EQ(summary.feature_maps[0], (std::array<int64_t, 3>{4, 4, 128}));
  int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(summary.trainable_parameters, count);
}

}  // namespace
}  // namespace osprey::models
