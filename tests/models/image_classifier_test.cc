#include "osprey/models/image_classifier.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/warm_start.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/models/summary.h"
#include "osprey/nn/name_map.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "support/tensorflow_files.h"

namespace osprey::models {
namespace {

using ::osprey::testing::expect_close;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Pair;
using ::testing::ThrowsMessage;

/// Of four classes and 64x64 pixels.
const char* const kClassifier = R"(model { image_classifier {
  num_classes: 4
  image_resizer { keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true } }
  feature_extractor {
    type: "resnet_v1_18"
    conv_hyperparams { activation: RELU regularizer { l2_regularizer { weight: 0.001 } }
                       initializer { truncated_normal_initializer { stddev: 0.01 } } batch_norm { scale: true decay: 0.9 } }
  }
  max_detections: 3
} })";

config::Pipeline classifier_config(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> full;
  for (const std::string& text : overrides) full.push_back("model.image_classifier." + text);
  return config::parse_pipeline(kClassifier, "classifier.config", full);
}

std::shared_ptr<DetectionModel> classifier(const std::vector<std::string>& overrides = {}) {
  return build_model(classifier_config(overrides).root(), {.seed = 1});
}

/// Two pictures, the second 64 x 32, of classes 2 and 0, each in the first of two rows.
Batch labelled_batch() {
  at::manual_seed(1);
  Batch batch;
  batch.images = at::randint(0, 256, {2, 3, 64, 64}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({64, 64, 64, 32}, at::kLong).view({2, 2});
  batch.boxes = at::tensor({0.f, 0.f, 1.f, 1.f}).expand({2, 2, 4}).contiguous();
  batch.classes = at::tensor({2, 0, 0, 0}, at::kLong).view({2, 2});
  batch.valid = at::tensor({1, 0, 1, 0}, at::kLong).view({2, 2}).to(at::kBool);
  batch.weights = at::ones({2, 2});
  batch.image_weights = at::ones({2});
  batch.example_keys = at::tensor({100, 101}, at::kLong);
  batch.ids = {"first", "second"};
  return batch;
}

Predictions with_logits(const at::Tensor& logits) {
  return {at::zeros({logits.size(0), 1, 4}),
          logits.unsqueeze(1),
          at::tensor({0.f, 0.f, 1.f, 1.f}).view({1, 4}),
          {{1, 1}},
          {64, 64}};
}

TEST(ImageClassifier, HyperparamsRuleEveryBackbone) {
  const std::string extractor = "feature_extractor.", batch_norm = extractor + "conv_hyperparams.batch_norm";
  for (const char* type : {"resnet_v1_18", "mobilenet_v1", "mobilenet_v2", "inception_v2", "inception_v3"}) {
    const auto parameters = [&](std::vector<std::string> overrides) {
      overrides.insert(overrides.end(), {extractor + "type=" + type, "image_resizer={fixed_shape_resizer {}}"});
      return summarize_model(classifier_config(overrides).root()).trainable_parameters;
    };
    const int64_t all = parameters({}), without_scale = parameters({batch_norm + ".scale=false"});
    EXPECT_LT(without_scale, all) << type;
    EXPECT_LT(parameters({batch_norm + ".scale=false", batch_norm + ".center=false"}), without_scale) << type;
  }
}

// Parameters of the published networks with 1000 classes, without auxiliary heads: torchvision 0.26's, and Keras's
// MobileNet.
TEST(ImageClassifier, HasTheParametersOfThePublishedNetworks) {
  const std::pair<const char*, int64_t> known[] = {
      {"resnet_v1_18", 11689512},  {"resnet_v1_34", 21797672}, {"resnet_v1_50", 25557032}, {"resnet_v1_101", 44549160},
      {"resnet_v1_152", 60192808}, {"mobilenet_v1", 4231976},  {"mobilenet_v2", 3504872},  {"inception_v3", 23834568}};
  for (const auto& [type, parameters] : known) {
    const Summary summary =
        summarize_model(classifier_config({fmt::format("feature_extractor.type={}", type), "num_classes=1000",
                                           "image_resizer={fixed_shape_resizer {}}"})
                            .root());
    EXPECT_EQ(summary.trainable_parameters, parameters) << type;
    EXPECT_EQ(summary.num_anchors, 1);
    EXPECT_EQ(summary.class_predictions_shape, (std::vector<int64_t>{1, 1, 1000}));
  }
}

TEST(ImageClassifier, NamesItsVariablesAsPublishedCheckpointsDo) {
  const auto has = [](const char* type, const std::string& name) {
    const auto found = variables(*classifier({fmt::format("feature_extractor.type={}", type)}));
    EXPECT_THAT(found, Contains(Key(name)));
  };
  has("resnet_v1_50", "resnet_v1_50.block1.unit_1.bottleneck_v1.shortcut.weights");
  has("resnet_v1_50", "resnet_v1_50.block4.unit_3.bottleneck_v1.conv3.BatchNorm.moving_variance");
  has("resnet_v1_18", "resnet_v1_18.conv1.weights");
  has("resnet_v1_18", "resnet_v1_18.logits.weights");
  has("resnet_v1_18", "resnet_v1_18.logits.biases");
  has("mobilenet_v1", "MobilenetV1.Logits.Conv2d_1c_1x1.weights");
  has("inception_v2", "InceptionV2.Logits.Conv2d_1c_1x1.biases");
}

TEST(ImageClassifier, LosesTheCrossEntropyOfEachPicture) {
  const Batch batch = labelled_batch();
  const at::Tensor logits = at::randn({2, 4}), targets = at::tensor({2, 0}, at::kLong);
  for (const double smoothing : {0.0, 0.1}) {
    const auto model = classifier({fmt::format("label_smoothing={}", smoothing)});
    const Losses losses = model->loss(with_logits(logits), batch);
    ASSERT_EQ(losses.terms.size(), 1u);
    expect_close(losses.terms[0].sum, at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, -100, smoothing),
                 0, 1e-6, "loss");
    EXPECT_EQ(losses.normalizer.item<float>(), 2);
  }
}

TEST(ImageClassifier, WeighsPicturesAndTheRowsOfMixedOnes) {
  Batch batch = labelled_batch();
  const at::Tensor logits = at::randn({2, 4}), logs = logits.log_softmax(1);
  batch.valid.fill_(true);
  batch.classes[0][1] = 3;
  batch.weights = at::tensor({0.75f, 0.25f, 1.f, 0.f}).view({2, 2});
  batch.image_weights = at::tensor({1.f, 0.f});
  const Losses losses = classifier()->loss(with_logits(logits), batch);
  expect_close(losses.terms[0].sum, -0.75 * logs[0][2] - 0.25 * logs[0][3], 0, 1e-6, "values");
  EXPECT_EQ(losses.normalizer.item<float>(), 1);
}

TEST(ImageClassifier, NamesTheLikeliestClassesForTheWholePicture) {
  const auto model = classifier();
  model->eval();
  const Batch batch = labelled_batch();
  const at::Tensor logits = at::tensor({0.f, 3.f, 1.f, 2.f, 5.f, -1.f, 0.f, 4.f}).view({2, 4});
  const Detections found = model->postprocess(with_logits(logits), batch.true_shapes);
  EXPECT_TRUE(at::equal(found.classes, at::tensor({1, 3, 2, 0, 3, 2}, at::kLong).view({2, 3})));
  expect_close(found.scores, std::get<0>(logits.softmax(1).topk(3, 1)), 0, 1e-6, "values");
  EXPECT_TRUE(at::equal(found.boxes, at::tensor({0.f, 0.f, 1.f, 1.f}).expand({2, 3, 4}))) << "also of a padded one";
  EXPECT_TRUE(at::equal(found.count, at::tensor({3, 3}, at::kLong)));
}

TEST(ImageClassifier, SeesTheMiddleOfEvaluatedPictures) {
  const auto model = classifier({"image_resizer={fixed_shape_resizer { height: 64 width: 64 }}",
                                 "evaluation_image_resizer={fixed_shape_resizer { height: 80 width: 97 }}"});
  model->eval();
  Batch batch = labelled_batch();
  batch.images = at::randint(0, 256, {2, 3, 80, 97}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({80, 97, 80, 97}, at::kLong).view({2, 2});
  Batch middle = batch;
  middle.images = batch.images.narrow(2, 8, 64).narrow(3, 16, 64).contiguous(at::MemoryFormat::ChannelsLast);
  const ModelInput input = model->preprocess(batch);
  EXPECT_TRUE(at::equal(input.images, model->preprocess(middle).images));
  const Detections found = model->postprocess(model->predict(input), batch.true_shapes);
  EXPECT_TRUE(at::equal(found.boxes, at::tensor({0.f, 0.f, 1.f, 1.f}).expand({2, 3, 4}))) << "of the whole picture";
  EXPECT_EQ(model->input_size(), (std::array<int64_t, 2>{64, 64}));
}

TEST(ImageClassifier, EveryVariableReceivesAGradient) {
  const auto model = classifier({"dropout_keep_probability=0.5"});
  model->train();
  const Batch batch = labelled_batch();
  model->loss(model->predict(model->preprocess(batch)), batch).terms[0].sum.backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().sum().item<float>(), 0) << item.key();
  }
}

TEST(ImageClassifier, EvaluatesByTheStatisticsThatItHasGathered) {
  const auto model = classifier({"image_resizer={fixed_shape_resizer { height: 256 width: 256 }}"});
  Batch batch = labelled_batch();
  batch.images = at::randint(0, 256, {2, 3, 256, 256}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  const auto logits = [&] { return model->predict(model->preprocess(batch)).class_logits.detach(); };
  model->train();
  at::Tensor trained;
  for (int i = 0; i < 100; ++i) {  // decay 0.9: what was there before has no weight any more
    trained = logits();
    model->commit_statistics();
  }
  model->eval();
  expect_close(logits(), trained, 0, 0.05 * trained.abs().max().item<double>(), "logits");
}

TEST(ImageClassifier, DropoutFollowsTheExample) {
  const auto model = classifier({"dropout_keep_probability=0.5", "freeze_batchnorm=true"});
  model->train();
  const Batch batch = labelled_batch();
  const auto logits = [&](const Batch& of) { return model->predict(model->preprocess(of)).class_logits.detach(); };
  const at::Tensor once = logits(batch);
  EXPECT_TRUE(at::equal(once, logits(batch)));
  Batch other = batch;
  other.example_keys = batch.example_keys + 10;
  EXPECT_FALSE(at::equal(once, logits(other)));
}

TEST(ImageClassifier, GivesItsBackboneToADetectorAndTakesADetectors) {
  const auto detector = build_model(config::parse_pipeline(R"(model { ssd {
    num_classes: 3
    image_resizer { fixed_shape_resizer { height: 256 width: 256 } }
    feature_extractor { type: "ssd_resnet18_v1_fpn" conv_hyperparams { batch_norm { scale: true } } }
    anchor_generator { multiscale_anchor_generator { aspect_ratios: 1 } }
    box_predictor { weight_shared_convolutional_box_predictor { depth: 8 conv_hyperparams { batch_norm { } } } }
    box_coder { faster_rcnn_box_coder {} } matcher { argmax_matcher {} } similarity_calculator { iou_similarity {} }
    loss { classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } }
  } })")
                                        .root(),
                                    {.seed = 1});
  const auto model = classifier();
  const auto own = variables(*model), of_detector = variables(*detector);
  const auto wanted = detector->restore_map(RestoreType::kClassification);
  size_t given = 0;
  for (const auto& [name, value] : own) given += wanted.count(name);
  EXPECT_EQ(given, own.size() - 2) << "all but weights and biases of the scores";
  const auto taken = model->restore_map(RestoreType::kDetection);
  size_t found = 0;
  for (const auto& [name, value] : of_detector) found += taken.count(name);
  EXPECT_EQ(found, own.size() - 2);
  EXPECT_THAT(taken, Contains(Pair("FeatureExtractor.resnet_v1_18.conv1.weights", "resnet_v1_18.conv1.weights")));
  EXPECT_EQ(model->restore_map(RestoreType::kFull).size(), own.size());
  const auto root =
      config::parse_pipeline(std::string(kClassifier) + " train_config { load_all_detection_checkpoint_vars: true }");
  const auto with_scores = build_model(root.root())->restore_map(RestoreType::kDetection);
  EXPECT_EQ(with_scores.size(), taken.size() + 2) << "the scores, too";
}

// Of TensorFlow's slim: the scopes are those of its model zoo, e.g. resnet_v1_50/logits/weights.
TEST(ImageClassifier, LoadsTensorFlowsClassifiers) {
  for (const char* type : {"resnet_v1_50", "mobilenet_v1"}) {
    const std::string choice = fmt::format("feature_extractor.type={}", type);
    const auto published = classifier({choice});
    std::vector<osprey::testing::TensorFlowVariable> stored;
    for (const auto& [name, value] : variables(*published))
      stored.push_back({nn::tf_name(name), nn::to_tf_layout(name, value.detach() + 1), ""});
    const osprey::testing::TempDir folder;
    write_tensorflow(folder / "model.ckpt", stored);
    for (const bool whole : {false, true}) {
      const auto model = classifier({choice});
      checkpoint::warm_start(folder / "model.ckpt", *model,
                             {.type = whole ? RestoreType::kFull : RestoreType::kClassification, .min_coverage = 1});
      const auto expected = variables(*published), found = variables(*model);
      for (size_t i = 0; i < found.size(); ++i) {
        const auto& [name, value] = found[i];
        const bool is_of_scores = name.find("ogits") != std::string::npos;
        EXPECT_EQ(at::equal(value, expected[i].second + 1), whole || !is_of_scores) << name;
      }
    }
  }
}

TEST(ImageClassifier, ChecksItsConfig) {
  const auto says = [](const std::vector<std::string>& overrides, const std::string& words) {
    EXPECT_THAT([&] { classifier(overrides); }, ThrowsMessage<ConfigError>(HasSubstr(words))) << words;
  };
  says({"num_classes=1"}, "model.image_classifier.num_classes: must be >= 2");
  says({"label_smoothing=1"}, "label_smoothing: must be in [0, 1), got 1");
  says({"dropout_keep_probability=0"}, "dropout_keep_probability: must be in (0, 1], got 0");
  says({"max_detections=0"}, "max_detections: must be >= 1, got 0");
  says({"feature_extractor.type=resnet_v1_5"}, "did you mean 'resnet_v1_50'?");
  says({"feature_extractor.type=ssd_resnet50_v1_fpn"}, "is not a backbone that classifies pictures");
  says({"feature_extractor.num_layers=3"}, "num_layers: is not used by resnet_v1_18");
  says({"feature_extractor.fpn.min_level=3"}, "fpn: is not used by resnet_v1_18");
  says({"feature_extractor.residual_network.zero_init_last_batch_norm=true",
        "feature_extractor.conv_hyperparams.batch_norm.scale=false"},
       "zero_init_last_batch_norm: needs a batch norm in conv_hyperparams, with scale");
  says({"feature_extractor.use_depthwise=true"}, "use_depthwise: is not used by resnet_v1_18");
  says({"image_resizer.fixed_shape_resizer.height=31", "image_resizer.fixed_shape_resizer.width=40"},
       "must give at least 32 pixels a side for resnet_v1_18, got 31");
  says({"image_resizer={keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 }}"},
       "image_resizer: must bring all pictures to one size");
  says({"feature_extractor.type=inception_v3"}, "must give at least 75 pixels a side for inception_v3, got 64");
  says({"evaluation_image_resizer={fixed_shape_resizer { height: 80 width: 80 }}"},
       "image_resizer: must bring all pictures to one size without padding beside evaluation_image_resizer");
  const std::string fixed = "image_resizer={fixed_shape_resizer { height: 64 width: 64 }}";
  says({fixed, "evaluation_image_resizer={fixed_shape_resizer { height: 80 width: 63 }}"},
       "evaluation_image_resizer: must make at least the 64 x 64 pixels that the network sees, got 80 x 63");
  says({fixed, "evaluation_image_resizer={keep_aspect_ratio_resizer { min_dimension: 80 }}"},
       "evaluation_image_resizer: must bring all pictures to one size in colour, without padding");
  says({"image_resizer="}, "image_resizer: must be set");
}

}  // namespace
}  // namespace osprey::models
