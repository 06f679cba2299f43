#include "train_detector/config.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "osprey/base/error.h"
#include "osprey/train/trainer.h"

namespace osprey::tools {
namespace {

/// The overrides of flags that stand for a field.
std::vector<std::string> assignments(const TrainFlags& flags, int64_t replicas) {
  std::vector<std::string> result = flags.config.overrides.assignments;
  result.insert(result.end(), flags.of_fields.begin(), flags.of_fields.end());
  const auto set = [&](const char* field, const std::optional<int64_t>& value) {
    if (value) result.push_back(fmt::format("{}={}", field, *value));
  };
  set("train_config.num_steps", flags.num_train_steps);
  if (flags.num_train_steps) result.push_back("train_config.num_epochs=");
  set("train_config.batch_size", flags.batch_size);
  if (flags.images_per_replica) set("train_config.batch_size", *flags.images_per_replica * replicas);
  if (flags.num_epochs) {
    result.push_back(fmt::format("train_config.num_epochs={}", *flags.num_epochs));
    result.emplace_back("train_config.num_steps=");
  }
  set("train_config.checkpoint.every_n_steps", flags.checkpoint_every_n);
  set("train_config.log_every_n_steps", flags.log_every_n);
  set("eval_config.eval_every_n_steps", flags.eval_every_n);
  if (flags.eval_every_n) result.push_back("eval_config.eval_every_n_epochs=");
  std::string precision = flags.precision;
  for (char& c : precision) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (flags.amp) precision = *flags.amp ? "FP16" : "FP32";
  if (flags.tf32) precision = *flags.tf32 ? "TF32" : "FP32";
  if (!precision.empty()) result.push_back("train_config.precision=" + precision);
  return result;
}

/// The override that gives a config's ResNet another depth: "ssd_resnet50_v1_fpn" becomes "ssd_resnet101_v1_fpn",
/// "resnet_v1_50" of a classifier "resnet_v1_101".
std::string depth_assignment(const config::Pipeline& pipeline, int64_t depth) {
  const auto& model = pipeline.message->model();
  const bool classifies = model.has_image_classifier();
  const std::string& type =
      classifies ? model.image_classifier().feature_extractor().type() : model.ssd().feature_extractor().type();
  std::smatch parts;
  if (!std::regex_match(type, parts, std::regex("(ssd_resnet|resnet_v1_)[0-9]+(.*)")))
    throw ConfigError(fmt::format("--resnet_depth: the feature extractor is '{}', not a ResNet", type));
  return fmt::format("model.{}.feature_extractor.type={}{}{}", classifies ? "image_classifier" : "ssd", parts[1].str(),
                     depth, parts[2].str());
}

/// (A batch of none is refused later on.)
int64_t steps_of(double epochs, const TrainFlags& flags, int64_t batch_size) {
  return train::steps_for(epochs, flags.examples_per_epoch, std::max<int64_t>(1, batch_size));
}

/// The overrides of a schedule's parts, which each kind of schedule calls by its own names.
std::vector<std::string> schedule_assignments(const config::Pipeline& pipeline, const TrainFlags& flags) {
  struct Names {
    const char *schedule, *rate, *warmup_rate, *warmup_steps;
  };
  constexpr Names kNames[] = {
      {"constant_learning_rate", "learning_rate", nullptr, nullptr},
      {"exponential_decay_learning_rate", "initial_learning_rate", "burnin_learning_rate", "burnin_steps"},
      {"cosine_decay_learning_rate", "learning_rate_base", "warmup_learning_rate", "warmup_steps"}};
  std::string path = "train_config.optimizer";
  const google::protobuf::Message* message = &pipeline.message->train_config().optimizer();
  const google::protobuf::FieldDescriptor* chosen = nullptr;
  const auto enter = [&](const google::protobuf::FieldDescriptor* field) {
    if (field == nullptr)
      throw ConfigError(path + (path.ends_with(".custom") ? ": is another program's, whose learning rate no flag sets"
                                                          : ": must be set where --lr or a warm-up is given"));
    path += "." + field->name();
    message = &message->GetReflection()->GetMessage(*message, field);
    chosen = field;
  };
  const auto of_one = [&](const char* name) {
    return message->GetReflection()->GetOneofFieldDescriptor(*message, message->GetDescriptor()->FindOneofByName(name));
  };
  enter(of_one("optimizer"));
  enter(message->GetDescriptor()->FindFieldByName("learning_rate"));
  enter(of_one("learning_rate"));
  const auto* const names =
      std::ranges::find_if(kNames, [&](const Names& one) { return chosen->name() == one.schedule; });
  std::vector<std::string> result;
  const auto set = [&](const char* flag, const char* field, const auto& value) {
    if (!value) return;
    if (field == nullptr)
      throw ConfigError(fmt::format("{}: {} has no such part; --set changes its fields", flag, path));
    result.push_back(fmt::format("{}.{}={}", path, field, *value));
  };
  const bool known = names != std::end(kNames);
  std::optional<int64_t> steps;
  if (flags.schedule.warmup_epochs) {
    const proto::TrainConfig& train = pipeline.message->train_config();
    const bool follows = train.auto_scale_lr().scale_schedule() && train.auto_scale_lr().has_base_batch_size();
    steps = steps_of(*flags.schedule.warmup_epochs, flags,
                     follows ? train.auto_scale_lr().base_batch_size() : train.batch_size());
  }
  set("--lr", known ? names->rate : nullptr, flags.schedule.rate);
  set("--warmup_value", known ? names->warmup_rate : nullptr, flags.schedule.warmup_rate);
  set("--warmup_epochs", known ? names->warmup_steps : nullptr, steps);
  return result;
}

}  // namespace

config::Pipeline pipeline_of(const TrainFlags& flags, int64_t replicas) {
  config::Overrides overrides = flags.config.overrides;
  overrides.assignments = assignments(flags, replicas);
  const std::string& file = flags.config.pipeline_config;
  config::Pipeline pipeline = config::load_pipeline(file, overrides);
  if (!flags.resnet_depth && !flags.sample_1_of_n && !flags.checkpoint_period && !flags.schedule.any()) return pipeline;
  if (flags.schedule.any())
    for (const std::string& assignment : schedule_assignments(pipeline, flags))
      overrides.assignments.push_back(assignment);
  if (flags.checkpoint_period)
    overrides.assignments.push_back(
        fmt::format("train_config.checkpoint.every_n_steps={}",
                    steps_of(*flags.checkpoint_period, flags, pipeline.message->train_config().batch_size())));
  if (flags.resnet_depth) overrides.assignments.push_back(depth_assignment(pipeline, *flags.resnet_depth));
  if (flags.sample_1_of_n)
    for (int i = 0; i < pipeline.message->eval_input_reader_size(); ++i)
      overrides.assignments.push_back(
          fmt::format("eval_input_reader[{}].sample_1_of_n_examples={}", i, *flags.sample_1_of_n));
  return config::load_pipeline(file, overrides);
}

void tell_dropped_epochs(const TrainFlags& flags) {
  if (!flags.num_train_steps && !flags.eval_every_n && !flags.num_epochs) return;
  const auto pipeline = config::load_pipeline(flags.config.pipeline_config, flags.config.overrides);
  const proto::TrainConfig& train = pipeline.message->train_config();
  const proto::EvalConfig& eval = pipeline.message->eval_config();
  constexpr const char* kText = "{} {} is obeyed, {} {:g} is not";
  if (flags.num_train_steps && train.has_num_epochs())
    SPDLOG_INFO(kText, "--num_train_steps", *flags.num_train_steps, "train_config.num_epochs", train.num_epochs());
  if (flags.num_epochs && train.has_num_steps())
    SPDLOG_INFO(kText, "--num_epochs", *flags.num_epochs, "train_config.num_steps",
                static_cast<double>(train.num_steps()));
  if (flags.eval_every_n && eval.has_eval_every_n_epochs())
    SPDLOG_INFO(kText, "--eval_every_n", *flags.eval_every_n, "eval_config.eval_every_n_epochs",
                eval.eval_every_n_epochs());
}

}  // namespace osprey::tools
