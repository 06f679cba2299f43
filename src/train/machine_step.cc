#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/train/job.h"
#include "train/machine_findings.h"

namespace osprey::train {
namespace {

constexpr const char* kSmallModel = R"(
  model { ssd {
    num_classes: 3
    image_resizer { fixed_shape_resizer { height: 300 width: 300 } }
    feature_extractor { type: "ssd_mobilenet_v1" conv_hyperparams { activation: RELU_6
      regularizer { l2_regularizer { weight: 4e-5 } } initializer { truncated_normal_initializer { stddev: 0.03 } }
      batch_norm { decay: 0.97 epsilon: 0.001 } } }
    box_predictor { convolutional_box_predictor { conv_hyperparams { activation: RELU_6
      regularizer { l2_regularizer { weight: 4e-5 } } initializer { truncated_normal_initializer { stddev: 0.03 } } } } }
    anchor_generator { ssd_anchor_generator { aspect_ratios: [1, 2, 0.5, 3, 0.33] } }
    box_coder { faster_rcnn_box_coder {} }
    matcher { argmax_matcher {} }
    similarity_calculator { iou_similarity {} }
    loss { classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } }
    post_processing { batch_non_max_suppression {} }
  } }
  train_config { batch_size: 2 precision: AUTO
    optimizer { momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.001 } } } } }
  train_input_reader { tf_record_input_reader { input_path: "made up" } })";

}  // namespace

void try_steps(Findings& findings, const std::string& device, const std::optional<config::Pipeline>& pipeline) {
  MachineFinding finding{"step on " + device};
  try {
    config::Pipeline tried = pipeline ? *pipeline : config::parse_pipeline(kSmallModel, "the small model");
    tried.message->mutable_train_config()->clear_fine_tune_checkpoint();  // any weights do
    const bool trial = tried.message->train_config().precision() == proto::TrainConfig::AUTO &&
                       tried.message->train_config().has_precision();
    JobOptions options;
    options.device = device;
    options.use_fake_data = true;
    const auto times = nlohmann::json::parse(benchmark(std::move(tried), options, /*steps=*/3));
    finding.found = fmt::format("{:.3g} s for {} {}, precision {}{}", times["median_step_seconds"].get<double>(),
                                times["batch_size"].get<int64_t>(),
                                pipeline ? "pictures of the config" : "pictures of 300x300 (SSD MobileNet v1)",
                                trial ? "AUTO is " : "", times["precision"].get<std::string>());
  } catch (const std::exception& error) {
    if (pipeline && device == "cpu" && dynamic_cast<const ConfigError*>(&error) != nullptr) throw;
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    finding.state = MachineFinding::State::kProblem;
    finding.found = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    finding.advice = "a training on this device would end so";
  }
  findings.push_back(finding);
}

}  // namespace osprey::train
