// Every public config whose model is built learns: trains on one batch until its loss has fallen, with a gradient for
// every variable; its checkpoint is evaluated and exported, and the export finds what the checkpoint finds.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "../src/train/assembly.h"
#include "../src/train/training_source.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/checkpoint.h"
#include "osprey/config/support.h"
#include "osprey/data/create_records.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/export/detector.h"
#include "osprey/export/exporter.h"
#include "support/golden.h"
#include "support/runtimes.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;
namespace fs = std::filesystem;

/// Records of made-up pictures for training and evaluation.
struct Pictures {
  TempDir folder;
  std::string record = folder / "shapes.record", label_map = folder / "label_map.pbtxt";

  Pictures() {
    data::CreateRecordsOptions options;
    options.format = data::CreateRecordsOptions::Format::kShapes;
    options.num_images = 4;
    options.output = record;
    options.label_map = label_map;
    data::create_records(options);
  }
};

/// The side of the square pictures: as in the config where they are small, else the smallest that every level of a
/// pyramid halves.
int side_of(const config::Pipeline& pipeline) {
  const auto& ssd = pipeline.message->model().ssd();
  if (ssd.feature_extractor().feature_pyramid_oneof_case() != proto::SsdFeatureExtractor::FEATURE_PYRAMID_ONEOF_NOT_SET)
    return 256;
  return ssd.image_resizer().fixed_shape_resizer().height() == 320 ? 320 : 300;
}

/// The config with two pictures a step, at a size that takes little time, and an optimizer that needs no warm-up.
config::Pipeline small(const fs::path& file, const Pictures& pictures) {
  const std::string reader =
      "{label_map_path: '" + pictures.label_map + "' tf_record_input_reader {input_path: '" + pictures.record + "'}}";
  const std::string side = std::to_string(side_of(config::load_pipeline(file.string())));
  return config::load_pipeline(
      file.string(),
      {"model.ssd.num_classes=" + std::to_string(config::load_label_map(pictures.label_map).max_id()),
       "model.ssd.image_resizer={fixed_shape_resizer {height: " + side + " width: " + side + "}}",
       "train_config.batch_size=2", "train_config.data_augmentation_options=", "train_config.fine_tune_checkpoint=",
       "train_config.gradient_clipping_by_norm=10",
       "train_config.optimizer={adam_optimizer {learning_rate {constant_learning_rate {learning_rate: 0.001}}} "
       "use_moving_average: false}",
       "train_input_reader=" + reader, "eval_input_reader=[" + reader + "]", "eval_config.use_moving_averages=false"});
}

/// Without the penalty on the weights, which no step lowers by much.
double data_loss(const StepResult& result) {
  double sum = 0;
  for (const NamedScalar& loss : result.losses)
    if (loss.name != "Loss/regularization_loss" && loss.name != "Loss/total_loss") sum += loss.value.item<double>();
  return sum;
}

/// Variables that no prediction depends on, but for those that the original makes and does not use either: PPN's
/// backbone goes on behind the map that the pyramid takes. One batch may miss a block that stochastic depth leaves out.
std::vector<std::string> untouched(models::DetectionModel& model, data::BatchSource& source) {
  constexpr int kBatches = 4;
  model.train();
  for (int i = 0; i < kBatches; ++i) {
    const Predictions predictions = model.predict(model.preprocess(*source.next()));
    (predictions.box_encodings.square().sum() + predictions.class_logits.square().sum()).backward();
    model.discard_statistics();
  }
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& gradient = item.value().grad();
    if (!gradient.defined() || gradient.abs().max().item<float>() == 0) names.push_back(item.key());
    item.value().mutable_grad() = at::Tensor();
  }
  const bool ends_early = model.named_modules().contains("FeatureExtractor.MobilenetV1.Conv2d_13_pointwise") &&
                          !model.named_modules().contains("FeatureExtractor.MobilenetV1.fpn");
  if (ends_early)
    std::erase_if(names, [](const std::string& name) {
      return name.find("MobilenetV1.Conv2d_12_") != std::string::npos ||
             name.find("MobilenetV1.Conv2d_13_depthwise") != std::string::npos ||
             name.find("MobilenetV1.Conv2d_13_pointwise.") != std::string::npos;
    });
  return names;
}

/// How the loss fell, for the log of the run.
std::string learn(Assembly& assembly, data::BatchSource& source) {
  EXPECT_THAT(untouched(*assembly.state.model, source), ::testing::IsEmpty());
  const Batch batch = *source.next();
  constexpr int kMostSteps = 60;
  double first = 0, loss = 0;
  int steps = 0;
  for (; steps < kMostSteps && (steps == 0 || loss > 0.8 * first); ++steps) {
    const StepResult result = train_step(assembly.state, batch, *assembly.gradients, assembly.step);
    EXPECT_TRUE(result.ok());
    loss = data_loss(result);
    if (steps == 0) first = loss;
  }
  EXPECT_LE(loss, 0.8 * first) << "after " << steps << " steps";
  return fmt::format("loss {:.4g} -> {:.4g} in {} steps", first, loss, steps);
}

/// ONNX Runtime finds with the file what libtorch finds with the other: as many, with the same scores.
void expect_onnx_serves(const std::string& folder, const at::Tensor& picture,
                        const c10::Dict<c10::IValue, c10::IValue>& expected) {
  if (!osprey::testing::has_onnx_runtime()) {
    std::cout << osprey::testing::kNoOnnxRuntime << std::endl;
    return;
  }
  const auto found = osprey::testing::run_onnx(osprey::testing::read_file(folder + "/model.onnx"),
                                               {{"input_tensor", picture.unsqueeze(0)}});
  for (const char* name : {"num_detections", "detection_scores"})
    osprey::testing::expect_close(found.at(name), expected.at(name).toTensor(), 0, 1e-3, name);
}

/// The detector runs the exported file, and scores a picture as the file itself does where rounding does not decide;
/// the bound is a tenth of what a score printed with two digits shows.
void expect_detector_serves(const std::string& folder, bool to_the_score) {
  const at::Tensor picture = at::arange(120 * 160 * 3).view({120, 160, 3}).mul(7).remainder(251).to(at::kByte);
  const std::vector<Detection> found = Detector(folder).detect(picture);
  ASSERT_FALSE(found.empty());
  if (!to_the_score) return;
  torch::jit::Module file = torch::jit::load(folder + "/model.pt");
  const at::NoGradGuard no_gradients;
  const auto expected = file.forward({picture.unsqueeze(0)}).toGenericDict();
  EXPECT_NEAR(found[0].score, expected.at("detection_scores").toTensor().max().item<float>(), 1e-3);
  expect_onnx_serves(folder, picture, expected);
}

void expect_whole_way(const fs::path& file, const Pictures& pictures) {
  SCOPED_TRACE(file.filename().string());
  Assembly assembly = assemble(small(file, pictures), {});
  const auto source = training_source(assembly, {});
  const std::string learnt = learn(assembly, *source);

  const TempDir run;
  const std::string checkpoint = run / "ckpt-1.osprey";
  checkpoint::write(checkpoint, snapshot(assembly.state));
  eval::CheckpointEvaluator evaluator(assembly.root(), {});
  int64_t step = 0;
  const eval::EvaluationResult result = evaluator.evaluate(checkpoint, step);
  EXPECT_EQ(step, assembly.state.step);
  EXPECT_EQ(result.num_images, 4);
  const ExportReport report = export_model(assembly.pipeline, checkpoint, run / "exported");
  EXPECT_TRUE(report.real_images);
  EXPECT_GT(report.detections, 0);
  expect_detector_serves(run / "exported", report.left_to_rounding == 0);
  std::cout << file.stem().string() << ": " << learnt << ", " << report.detections << " detections exported, within "
            << std::max(report.max_box_difference, report.max_score_difference) << ", " << report.left_to_rounding
            << " of " << report.images << " pictures left to rounding" << std::endl;
}

bool is_built(const fs::path& file) {
  const config::Pipeline pipeline = config::load_pipeline(file.string());
  return pipeline.message->model().has_ssd() && config::unsupported_choices(pipeline).refused.empty();
}

TEST(EveryConfig, OfEachFamilyOneLearnsIsEvaluatedAndExported) {
  if (!osprey::testing::test_data()) GTEST_SKIP() << osprey::testing::kNoTestData;
  const Pictures pictures;
  for (const char* name : {"ssd_mobilenet_v1_coco", "ssd_mobilenet_v1_ppn_shared_box_predictor_300x300_coco14_sync",
                           "ssd_mobilenet_v2_fpnlite_640x640_coco17_tpu-8", "ssdlite_mobilenet_v3_small_320x320_coco"})
    expect_whole_way(*osprey::testing::test_data() / "data/pipeline_configs" / (std::string(name) + ".config"),
                     pictures);
}

/// All configs, in halves for two processors.
class EveryConfigHalf : public ::testing::TestWithParam<int> {};

TEST_P(EveryConfigHalf, LearnsIsEvaluatedAndExported) {
  if (!osprey::testing::test_data()) GTEST_SKIP() << osprey::testing::kNoTestData;
  if (std::getenv("OSPREY_LONG_TESTS") == nullptr)
    GTEST_SKIP() << "takes five to ten minutes on two cores; set OSPREY_LONG_TESTS=1 to run it";
  const Pictures pictures;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(*osprey::testing::test_data() / "data/pipeline_configs"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int built = 0, seen = 0;
  for (size_t i = static_cast<size_t>(GetParam()); i < files.size(); i += 2) {
    ++seen;
    if (!is_built(files[i])) continue;
    ++built;
    expect_whole_way(files[i], pictures);
  }
  std::cout << built << " of " << seen << " configs" << std::endl;
  EXPECT_GT(built, 15);
}
INSTANTIATE_TEST_SUITE_P(Long, EveryConfigHalf, ::testing::Values(0, 1));

}  // namespace
}  // namespace osprey::train
