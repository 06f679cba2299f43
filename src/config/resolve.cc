#include "osprey/config/resolve.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <filesystem>

#include "osprey/base/cpu.h"
#include "osprey/config/label_map.h"

// This is where deprecated fields get their meaning.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace osprey::config {
namespace {

using Config = proto::TrainEvalPipelineConfig;

std::string feature_extractor_type(const Config& config) {
  if (config.model().has_ssd()) return config.model().ssd().feature_extractor().type();
  if (config.model().has_faster_rcnn()) return config.model().faster_rcnn().feature_extractor().type();
  return "";
}

/// The number of classes, a field that all models that have one call alike.
struct ClassField {
  const google::protobuf::FieldDescriptor* model = nullptr;  ///< the one that is chosen
  const google::protobuf::FieldDescriptor* number = nullptr;
};

ClassField class_field(const proto::DetectionModel& model) {
  const auto* choice = model.GetDescriptor()->FindOneofByName("model");
  const auto* chosen = model.GetReflection()->GetOneofFieldDescriptor(model, choice);
  return chosen == nullptr ? ClassField() : ClassField{chosen, chosen->message_type()->FindFieldByName("num_classes")};
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

int64_t num_classes(const Config& config) {
  const ClassField field = class_field(config.model());
  if (field.number == nullptr) return 0;
  const auto& chosen = config.model().GetReflection()->GetMessage(config.model(), field.model);
  return chosen.GetReflection()->GetInt32(chosen, field.number);
}

void derive_num_classes(Config& config) {
  const ClassField field = class_field(config.model());
  if (field.number == nullptr || num_classes(config) > 0) return;
  std::vector<const proto::InputReader*> readers{&config.train_input_reader()};
  for (const proto::InputReader& reader : config.eval_input_reader()) readers.push_back(&reader);
  const auto found = std::find_if(readers.begin(), readers.end(), [](const proto::InputReader* reader) {
    return reader->has_label_map() || std::filesystem::is_regular_file(reader->label_map_path());
  });
  if (found == readers.end()) return;
  auto* chosen = config.model().GetReflection()->MutableMessage(config.mutable_model(), field.model);
  chosen->GetReflection()->SetInt32(chosen, field.number, label_map_of(**found)->max_id());
}

ArithmeticChoice arithmetic(const Config& config) {
  if (config.arithmetic() != Config::AUTO) return {config.arithmetic(), "arithmetic is set"};
  const std::string type = feature_extractor_type(config);
  if (ends_with(type, "_keras")) return {Config::TF2, fmt::format("the feature extractor is {}", type)};
  if (config.model().has_center_net()) return {Config::TF2, "the model is CenterNet"};
  if (config.train_config().fine_tune_checkpoint_version() == proto::V2)
    return {Config::TF2, "train_config.fine_tune_checkpoint_version is V2"};
  return {Config::TF1, "neither a _keras feature extractor nor fine_tune_checkpoint_version: V2"};
}

bool trains_for_8_bits(const proto::TrainEvalPipelineConfig& config) {
  return config.has_graph_rewriter() && !config.model().ssd().feature_extractor().type().ends_with("_keras");
}

std::string default_metric(const Config& config) {
  return config.model().has_image_classifier() ? "image_classification_metrics" : "coco_detection_metrics";
}

void derive_metrics(Config& config) {
  if (!config.model().has_image_classifier()) return;
  const auto name_metric = [](auto& watcher) {
    if (!watcher.has_metric()) watcher.set_metric("ImageClassification/Accuracy");
  };
  proto::TrainConfig& train = *config.mutable_train_config();
  if (train.checkpoint().has_keep_best()) name_metric(*train.mutable_checkpoint()->mutable_keep_best());
  if (train.has_early_stopping()) name_metric(*train.mutable_early_stopping());
}

int max_number_of_boxes(const Config& config, const proto::InputReader& reader) {
  if (reader.has_max_number_of_boxes()) return reader.max_number_of_boxes();
  return std::max(reader.max_number_of_boxes(), config.train_config().max_number_of_boxes());  // 100 where not set
}

InputQueue input_queue(const Config& config) {
  const proto::TrainConfig& train = config.train_config();
  InputQueue queue;
  if (train.has_num_batch_queue_threads()) queue.threads = train.num_batch_queue_threads();
  if (config.train_input_reader().has_num_prefetch_batches()) return queue;
  const int batch_size = std::max(1, static_cast<int>(train.batch_size()));
  if (train.has_prefetch_queue_capacity())
    queue.batches = train.prefetch_queue_capacity();
  else if (train.has_batch_queue_capacity())
    queue.batches = std::max(1, train.batch_queue_capacity() / batch_size);
  return queue;
}

std::string fine_tune_checkpoint_type(const proto::TrainConfig& config) {
  if (!config.fine_tune_checkpoint_type().empty()) return config.fine_tune_checkpoint_type();
  return config.from_detection_checkpoint() ? "detection" : "classification";
}

proto::TrainConfig::Precision precision(const proto::TrainConfig& config, bool on_gpu) {
  if (config.precision() != proto::TrainConfig::AUTO) return config.precision();
  if (on_gpu) return config.use_bfloat16() ? proto::TrainConfig::BF16 : proto::TrainConfig::TF32;
  if (!has_bfloat16_arithmetic()) return proto::TrainConfig::FP32;
  if (config.use_bfloat16()) return proto::TrainConfig::BF16;
  return config.has_precision() ? proto::TrainConfig::AUTO : proto::TrainConfig::FP32;
}

}  // namespace osprey::config
