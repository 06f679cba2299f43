#include "osprey/config/validate.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <cmath>

#include "osprey/base/nearest.h"
#include "osprey/config/deprecated.h"
#include "osprey/config/fields.h"

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
    check_train();
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

  void check_reader(const std::string& path, const proto::InputReader& reader) {
    at_least(path + ".num_readers", reader.num_readers(), 1u);
    at_least(path + ".sample_1_of_n_examples", reader.sample_1_of_n_examples(), 1u);
    at_least(path + ".num_prefetch_batches", reader.num_prefetch_batches(), -1);
    at_least(path + ".max_number_of_boxes", reader.max_number_of_boxes(), 0);
    at_least(path + ".num_additional_channels", reader.num_additional_channels(), 0);
    if (reader.has_tf_record_input_reader() && reader.tf_record_input_reader().input_path().empty())
      findings_.add(path + ".tf_record_input_reader", "names no input_path");
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

void check(const Pipeline& pipeline, Purpose purpose) {
  validate(pipeline);
  require_supported(pipeline, purpose);
  for (const Remark& remark : deprecated_fields(pipeline)) SPDLOG_INFO("{}", remark.line());
  for (const Remark& remark : unsupported_choices(pipeline, purpose).listed) SPDLOG_WARN("{}", remark.line());
}

}  // namespace osprey::config
