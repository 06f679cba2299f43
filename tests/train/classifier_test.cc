// A classifier of pictures from folders to a detector that starts from its weights, by the programs.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "support/golden.h"
#include "support/pictures.h"
#include "support/runtimes.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::grey_png;
using osprey::testing::read_file;
using osprey::testing::read_json;
using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kExtractor = R"(depth_multiplier: 0.125
  conv_hyperparams { activation: RELU batch_norm { decay: 0.8 scale: true }
                     initializer { variance_scaling_initializer {} } } override_base_feature_extractor_hyperparams: true)";

class ClassifierPrograms : public ::testing::Test {
 protected:
  ClassifierPrograms() {
    for (int i = 0; i < 16; ++i)
      for (const auto& [name, grey] : {std::pair("dark", 30), std::pair("light", 200)})
        write_file(folder_ / fmt::format("pictures/{}/{}.png", name, i), grey_png(40 + i, 50, grey + i));
    write_file(folder_ / "classifier.config", fmt::format(R"(
model {{ image_classifier {{ image_resizer {{ fixed_shape_resizer {{ height: 48 width: 48 }} }}
  evaluation_image_resizer {{ fixed_shape_resizer {{ height: 56 width: 56 }} }}
  feature_extractor {{ type: "resnet_v1_18" {0} }} }} }}
train_config {{ batch_size: 8 num_steps: 30
  optimizer {{ momentum_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.02 }} }} }} }} }}
train_input_reader {{ annotation_input_reader {{ format: FOLDERS input: "{1}/pictures" }} max_number_of_boxes: 1 }}
eval_input_reader {{ annotation_input_reader {{ format: FOLDERS input: "{1}/pictures" }} max_number_of_boxes: 1 }})",
                                                          kExtractor, folder_.path().string()));
    write_file(folder_ / "detector.config", fmt::format(R"(
model {{ ssd {{ num_classes: 1 image_resizer {{ fixed_shape_resizer {{ height: 256 width: 256 }} }}
  feature_extractor {{ type: "ssd_resnet18_v1_fpn" {0} }}
  anchor_generator {{ multiscale_anchor_generator {{ aspect_ratios: 1 }} }}
  box_predictor {{ weight_shared_convolutional_box_predictor {{ depth: 8 conv_hyperparams {{ batch_norm {{ }} }} }} }}
  box_coder {{ faster_rcnn_box_coder {{}} }} matcher {{ argmax_matcher {{}} }} similarity_calculator {{ iou_similarity {{}} }}
  loss {{ classification_loss {{ weighted_sigmoid {{}} }} localization_loss {{ weighted_smooth_l1 {{}} }} }} }} }}
train_config {{ batch_size: 1 fine_tune_checkpoint: "{1}/run" fine_tune_checkpoint_type: "classification"
  optimizer {{ momentum_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }} }} }} }})",
                                                        kExtractor, folder_.path().string()));
  }

  /// What a program says and prints.
  std::string run(const std::string& program, const std::string& flags, int exit_code = 0) {
    const std::string command = fmt::format("cd '{}' && '{}/bin/{}' {} > said 2>&1", folder_.path().string(),
                                            OSPREY_BINARY_DIR, program, flags);
    const int status = std::system(command.c_str());
    const std::string said = read_file(folder_ / "said");
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == exit_code) << command << "\n" << said;
    return said;
  }

  TempDir folder_;
};

TEST_F(ClassifierPrograms, TrainEvaluateExportAndGiveTheirBackboneToADetector) {
  run("train_detector", "--pipeline_config classifier.config --model_dir run");
  const auto evaluation = [&](const std::string& flags) {
    run("eval_detector", "--pipeline_config classifier.config --checkpoint_dir run --json results.json " + flags);
    return read_json(folder_ / "results.json").at("metrics").at("ImageClassification/Accuracy").get<double>();
  };
  EXPECT_EQ(evaluation(""), 1);

  EXPECT_THAT(run("create_records", "--format folders --input pictures --label_map map.pbtxt --output all.record"),
              HasSubstr("32 pictures with 32 objects"));
  EXPECT_EQ(evaluation("--set 'eval_input_reader[0]={tf_record_input_reader { input_path: \"all.record\" } "
                       "label_map_path: \"map.pbtxt\"}'"),
            1)
      << "the records say the same";

  run("export_model", "--pipeline_config classifier.config --checkpoint run --output_dir exported --tflite");
  if (osprey::testing::has_tflite_runtime()) {  // takes the 48 x 48 pixels that the network sees
    const auto scores = osprey::testing::run_tflite(
        read_file(folder_ / "exported/model.tflite"),
        {{"normalized_input_image_tensor", at::full({1, 48, 48, 3}, 208 / 127.5 - 1, at::kFloat)}});
    EXPECT_EQ(scores.at("scores").argmax().item<int64_t>(), 1) << "light";
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "exported/model.onnx"));
  run("detect", "--model exported --json found.json pictures/light");
  const auto found = read_json(folder_ / "found.json");
  ASSERT_EQ(found.size(), 16u);
  for (const auto& picture : found) {
    ASSERT_FALSE(picture.at("detections").empty());
    EXPECT_EQ(picture.at("detections")[0].at("class"), "light");
  }

  EXPECT_THAT(run("train_detector",
                  "--pipeline_config detector.config --use_fake_data --model_dir started --num_train_steps 1"),
              HasSubstr("100.0 % of the backbone"));
}

TEST_F(ClassifierPrograms, CheckPicturesWithoutTablesOfBoxes) {
  const std::string flags = "--pipeline_config classifier.config";
  EXPECT_THAT(run("check_dataset", flags), AllOf(HasSubstr("dark"), HasSubstr("\nready to train"),
                                                 Not(HasSubstr("longer side")), Not(HasSubstr("aspect ratio"))));
  std::filesystem::remove_all(folder_.path() / "pictures/dark");
  EXPECT_THAT(run("check_dataset", flags, 2), HasSubstr("model.image_classifier.num_classes: must be >= 2"));
}

TEST_F(ClassifierPrograms, SayWhereLabelMapsDisagree) {
  write_file(folder_ / "turned.pbtxt", "item { id: 1 name: 'light' } item { id: 2 name: 'dark' }");
  const std::string turned = " --set 'eval_input_reader[0].label_map_path=\"turned.pbtxt\"'";
  EXPECT_THAT(
      run("train_detector", "--pipeline_config classifier.config --model_dir run --num_train_steps 1" + turned),
      HasSubstr("eval_input_reader[0]: class 1 is called 'light', in training 'dark'; is it the right label map?"));
  EXPECT_THAT(run("eval_detector", "--pipeline_config classifier.config --checkpoint_dir run" + turned),
              HasSubstr("the classes get their names from turned.pbtxt; run/label_map.pbtxt, which lies beside the "
                        "checkpoint, has others"));
  EXPECT_THAT(run("eval_detector", "--pipeline_config classifier.config --checkpoint_dir run"),
              Not(HasSubstr("has others")));
}

}  // namespace
}  // namespace osprey::train
