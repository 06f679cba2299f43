#include "osprey/config/validate.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "osprey/base/error.h"
#include "osprey/base/nearest.h"
#include "osprey/config/deprecated.h"
#include "osprey/config/fields.h"
#include "osprey/config/label_map.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // deprecated fields have ranges as well

namespace osprey::config {
namespace {

using google::protobuf::FieldDescriptor;

class Checker {
 public:
  explicit Checker(const Pipeline& pipeline) : config_(*pipeline.message), findings_(pipeline.sources) {}

  void run() {
    visit_fields(config_, [this](const FieldValue& value) { check_value(value); });
    if (config_.model().has_ssd() && config_.model().ssd().has_num_classes())
      at_least("model.ssd.num_classes", config_.model().ssd().num_classes(), 1);
    if (config_.model().has_image_classifier()) check_classifier();
    check_train();
    check_on_nan();
    check_checkpoints();
    check_eval();
    check_reader("train_input_reader", config_.train_input_reader());
    for (int i = 0; i < config_.eval_input_reader_size(); ++i)
      check_reader(fmt::format("eval_input_reader[{}]", i), config_.eval_input_reader(i));
    findings_.throw_if_any();
  }

 private:
  template <class T>
  void at_least(const std::string& path, T value, T least) {
    if (!(value >= least)) findings_.add(path, fmt::format("must be >= {}, got {}", least, value));
  }
  void above_zero(const std::string& path, double value) {
    if (!(value > 0)) findings_.add(path, fmt::format("must be > 0, got {}", value));
  }
  void fraction(const std::string& path, float value) {
    if (!(value >= 0 && value <= 1)) findings_.add(path, fmt::format("must be between 0 and 1, got {}", value));
  }

  void check_value(const FieldValue& value) {
    const auto* reflection = value.parent->GetReflection();
    if (value.field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      const float number = value.index < 0 ? reflection->GetFloat(*value.parent, value.field)
                                           : reflection->GetRepeatedFloat(*value.parent, value.field, value.index);
      if (!std::isfinite(number)) findings_.add(value.path, fmt::format("must be a finite number, got {}", number));
    } else if (value.field->type() == FieldDescriptor::TYPE_STRING) {
      const std::string text = value.index < 0 ? reflection->GetString(*value.parent, value.field)
                                               : reflection->GetRepeatedString(*value.parent, value.field, value.index);
      const bool control =
          std::any_of(text.begin(), text.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); });
      if (control)
        findings_.add(value.path, fmt::format("holds a control character: {}; write a Windows path with / or with \\\\",
                                              value.text()));
    }
  }

  void check_classifier() {
    const proto::TrainConfig& train = config_.train_config();
    if (train.merge_multiple_label_boxes())
      findings_.add("train_config.merge_multiple_label_boxes",
                    "does not go with model.image_classifier, whose classes exclude each other");
    if (train.use_multiclass_scores())
      findings_.add("train_config.use_multiclass_scores",
                    "does not go with model.image_classifier, which learns from one class a picture");
    bool mixes = false;
    for (int i = 0; i < train.data_augmentation_options_size(); ++i) {
      mixes = mixes || train.data_augmentation_options(i).has_random_mix_up();
      if (train.data_augmentation_options(i).has_random_mosaic())
        findings_.add(fmt::format("train_config.data_augmentation_options[{}].random_mosaic", i),
                      "does not go with model.image_classifier, for which a picture shows one class");
    }
    if (mixes && config_.train_input_reader().max_number_of_boxes() == 1)
      findings_.add("train_input_reader.max_number_of_boxes",
                    "must be at least 2 with random_mix_up: a mixed picture has two labels");
  }

  void check_train() {
    const auto& train = config_.train_config();
    at_least("train_config.batch_size", train.batch_size(), 1u);
    above_zero("train_config.keep_checkpoint_every_n_hours", train.keep_checkpoint_every_n_hours());
    at_least("train_config.gradient_clipping_by_norm", train.gradient_clipping_by_norm(), 0.f);
    at_least("train_config.bias_grad_multiplier", train.bias_grad_multiplier(), 0.f);
    at_least("train_config.max_number_of_boxes", train.max_number_of_boxes(), 0);
    at_least("train_config.gradient_accumulation_steps", train.gradient_accumulation_steps(), 1u);
    at_least("train_config.log_every_n_steps", train.log_every_n_steps(), 1u);
    at_least("train_config.num_batch_queue_threads", train.num_batch_queue_threads(), 1);
    at_least("train_config.batch_queue_capacity", train.batch_queue_capacity(), 1);
    at_least("train_config.prefetch_queue_capacity", train.prefetch_queue_capacity(), 1);
    at_least("train_config.save_summaries_secs", train.save_summaries_secs(), 0.f);
    fraction("train_config.max_bad_fraction", train.max_bad_fraction());
    fraction("train_config.min_restore_coverage", train.min_restore_coverage());
    if (train.has_num_epochs()) {
      above_zero("train_config.num_epochs", train.num_epochs());
      if (train.num_steps() > 0)
        findings_.add("train_config.num_epochs", "cannot stand beside num_steps; keep one of the two");
    }
    const bool has_scores = config_.train_input_reader().load_multiclass_scores();
    if (train.use_multiclass_scores() && !has_scores)
      findings_.add("train_config.use_multiclass_scores", "needs train_input_reader.load_multiclass_scores: true");
    for (int i = 0; i < train.data_augmentation_options_size(); ++i)
      if (train.data_augmentation_options(i).has_convert_class_logits_to_softmax() && !has_scores)
        findings_.add(fmt::format("train_config.data_augmentation_options[{}].convert_class_logits_to_softmax", i),
                      "needs train_input_reader.load_multiclass_scores: true");
    const std::string& type = train.fine_tune_checkpoint_type();
    std::vector<std::string> types = {"classification", "detection", "full"};
    if (config_.model().has_center_net()) types.push_back("fine_tune");
    if (!type.empty() && std::find(types.begin(), types.end(), type) == types.end())
      findings_.add(
          "train_config.fine_tune_checkpoint_type",
          fmt::format("must be one of {}, got \"{}\"{}", fmt::join(types, ", "), type, did_you_mean(type, types)));
  }

  void check_checkpoints() {
    const auto& checkpoint = config_.train_config().checkpoint();
    at_least("train_config.checkpoint.keep_last", checkpoint.keep_last(), 1u);
    at_least("train_config.checkpoint.every_n_secs", checkpoint.every_n_secs(), 0.);
    if (checkpoint.keep_best().metric().empty())
      findings_.add("train_config.checkpoint.keep_best.metric", "must name a metric");
  }

  void check_eval() {
    const auto& eval = config_.eval_config();
    at_least("eval_config.batch_size", eval.batch_size(), 1u);
    fraction("eval_config.min_score_threshold", eval.min_score_threshold());
    if (eval.has_eval_every_n_epochs()) {
      above_zero("eval_config.eval_every_n_epochs", eval.eval_every_n_epochs());
      if (eval.eval_every_n_steps() > 0)
        findings_.add("eval_config.eval_every_n_epochs", "cannot stand beside eval_every_n_steps; keep one of the two");
    }
    at_least("eval_config.eval_from_epoch", eval.eval_from_epoch(), 0.f);
    at_least("eval_config.max_num_boxes_to_visualize", eval.max_num_boxes_to_visualize(), 0);
    fraction("eval_config.recall_lower_bound", eval.recall_lower_bound());
    fraction("eval_config.recall_upper_bound", eval.recall_upper_bound());
    if (eval.recall_lower_bound() > eval.recall_upper_bound())
      findings_.add("eval_config.recall_lower_bound",
                    fmt::format("must not exceed recall_upper_bound, which is {}", eval.recall_upper_bound()));
  }

  void check_on_nan() {
    const proto::OnNan& on_nan = config_.train_config().on_nan();
    const auto goes_with = [&](const char* field, bool is_set, proto::OnNan::Policy policy) {
      if (is_set && on_nan.policy() != policy)
        findings_.add(std::string("train_config.on_nan.") + field,
                      fmt::format("goes with policy: {}, but the policy is {}", proto::OnNan::Policy_Name(policy),
                                  proto::OnNan::Policy_Name(on_nan.policy())));
    };
    goes_with("max_skipped_in_a_row", on_nan.has_max_skipped_in_a_row(), proto::OnNan::SKIP_BATCH);
    goes_with("max_rollbacks", on_nan.has_max_rollbacks(), proto::OnNan::ROLLBACK);
    goes_with("rollback_learning_rate_factor", on_nan.has_rollback_learning_rate_factor(), proto::OnNan::ROLLBACK);
    at_least("train_config.on_nan.max_skipped_in_a_row", on_nan.max_skipped_in_a_row(), 1u);
    at_least("train_config.on_nan.max_rollbacks", on_nan.max_rollbacks(), 1u);
    const float factor = on_nan.rollback_learning_rate_factor();
    above_zero("train_config.on_nan.rollback_learning_rate_factor", factor);
    fraction("train_config.on_nan.rollback_learning_rate_factor", factor);
    if (on_nan.policy() == proto::OnNan::ROLLBACK && config_.train_input_reader().num_epochs() > 0)
      findings_.add("train_config.on_nan.policy",
                    "ROLLBACK makes steps again with other data, but with train_input_reader.num_epochs the data ends; "
                    "write train_config.num_epochs instead");
  }

  void check_reader(const std::string& path, const proto::InputReader& reader) {
    at_least(path + ".num_readers", reader.num_readers(), 1u);
    at_least(path + ".sample_1_of_n_examples", reader.sample_1_of_n_examples(), 1u);
    at_least(path + ".num_prefetch_batches", reader.num_prefetch_batches(), -1);
    at_least(path + ".max_number_of_boxes", reader.max_number_of_boxes(), 0);
    fraction(path + ".repeat_factor_threshold", reader.repeat_factor_threshold());
    if (reader.repeat_factor_threshold() > 0 && path.starts_with("eval"))
      findings_.add(path + ".repeat_factor_threshold", "is for training: an evaluation sees every record once");
    at_least(path + ".num_additional_channels", reader.num_additional_channels(), 0);
    if (reader.has_tf_record_input_reader() && reader.tf_record_input_reader().input_path().empty())
      findings_.add(path + ".tf_record_input_reader", "names no input_path");
    if (reader.has_label_map() && !reader.label_map_path().empty())
      findings_.add(path + ".label_map", "cannot stand beside label_map_path; keep one of the two");
    if (reader.has_label_map()) check_label_map(path + ".label_map", reader);
    if (reader.decode_reduced() && reader.load_instance_masks())
      findings_.add(path + ".decode_reduced", "does not go with load_instance_masks: masks are of whole pictures");
    if (reader.has_annotation_input_reader()) check_annotations(path, reader);
    if (reader.label_of_picture()) check_picture_labels(path, reader);
    const auto& weights = reader.sample_from_datasets_weights();
    double sum = 0;
    for (int i = 0; i < weights.size(); ++i) {
      at_least(fmt::format("{}.sample_from_datasets_weights[{}]", path, i), weights[i], 0.f);
      sum += weights[i];
    }
    if (weights.empty()) return;
    const int paths = reader.tf_record_input_reader().input_path_size();
    if (weights.size() != paths)
      findings_.add(path + ".sample_from_datasets_weights",
                    fmt::format("has {} values for {} input paths", weights.size(), paths));
    if (!(sum > 0)) findings_.add(path + ".sample_from_datasets_weights", "must not all be 0");
    if (path.starts_with("eval"))
      findings_.add(path + ".sample_from_datasets_weights", "is for training: an evaluation sees every record once");
    if (reader.repeat_factor_threshold() > 0)
      findings_.add(path + ".sample_from_datasets_weights", "does not go with repeat_factor_threshold");
  }

  void check_label_map(const std::string& path, const proto::InputReader& reader) {
    try {
      label_map_of(reader);
    } catch (const ConfigError& error) {
      findings_.add(path, error.what());
    }
  }

  void check_picture_labels(const std::string& path, const proto::InputReader& reader) {
    if (!reader.has_tf_record_input_reader())
      findings_.add(path + ".label_of_picture", "is of a tf_record_input_reader alone");
    const char* const of_objects = "does not go with label_of_picture: objects of the records are not looked at";
    if (reader.load_instance_masks()) findings_.add(path + ".load_instance_masks", of_objects);
    if (reader.num_keypoints() > 0) findings_.add(path + ".num_keypoints", of_objects);
    if (reader.load_multiclass_scores()) findings_.add(path + ".load_multiclass_scores", of_objects);
  }

  void check_annotations(const std::string& reader_path, const proto::InputReader& all) {
    const proto::AnnotationInputReader& reader = all.annotation_input_reader();
    const std::string path = reader_path + ".annotation_input_reader";
    const char* const boxes_only = "is of records alone: annotations are read for their boxes";
    if (all.load_instance_masks()) findings_.add(reader_path + ".load_instance_masks", boxes_only);
    if (all.num_keypoints() > 0) findings_.add(reader_path + ".num_keypoints", boxes_only);
    if (all.load_multiclass_scores()) findings_.add(reader_path + ".load_multiclass_scores", boxes_only);
    if (!reader.has_format())
      findings_.add(path + ".format", "must be set: VOC, COCO, YOLO, CSV, CVAT, KITTI or FOLDERS");
    if (reader.input().empty()) findings_.add(path + ".input", "must name the annotations");
    if (reader.has_class_descriptions() && reader.has_format() && reader.format() != proto::AnnotationInputReader::CSV)
      findings_.add(path + ".class_descriptions", "goes with format: CSV only");
  }

  const proto::TrainEvalPipelineConfig& config_;
  Findings findings_;
};

bool is_below(const std::string& path, const std::string& part) {
  return path.compare(0, part.size(), part) == 0 &&
         (path.size() == part.size() || path[part.size()] == '.' || path[part.size()] == '[');
}

}  // namespace

void validate(const Pipeline& pipeline) { Checker(pipeline).run(); }

void require_configured_paths(const Pipeline& pipeline, const std::vector<std::string>& parts) {
  Findings findings(pipeline.sources);
  visit_fields(*pipeline.message, [&](const FieldValue& value) {
    const bool wanted = parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
                          return is_below(value.path, part);
                        });
    if (!wanted || value.field->type() != FieldDescriptor::TYPE_STRING) return;
    if (value.text().find("PATH_TO_BE_CONFIGURED") == std::string::npos) return;
    const char* const otherwise = value.path.ends_with("fine_tune_checkpoint")
                                      ? "; --set {}= starts from random weights"
                                      : ", or --data_dir FOLDER for the data";
    findings.add(
        value.path,
        fmt::format("still holds the placeholder PATH_TO_BE_CONFIGURED; edit it or pass --set {}=...", value.path) +
            fmt::format(fmt::runtime(otherwise), value.path));
  });
  findings.throw_if_any();
}

void check(const Pipeline& pipeline) {
  validate(pipeline);
  require_supported(pipeline);
  for (const Remark& remark : deprecated_fields(pipeline)) SPDLOG_INFO("{}", remark.line());
  for (const Remark& remark : unsupported_choices(pipeline).listed) SPDLOG_WARN("{}", remark.line());
}

}  // namespace osprey::config
