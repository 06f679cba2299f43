#include "osprey/train/class_check.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include "osprey/base/error.h"

namespace osprey::train {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The message chosen in `model` (ssd, faster_rcnn, ...) and its `num_classes`; nothing where the model has none.
struct ClassField {
  Message* message;
  const FieldDescriptor* field;
};

std::optional<ClassField> class_field(proto::TrainEvalPipelineConfig& pipeline) {
  if (!pipeline.has_model()) return std::nullopt;
  Message* model = pipeline.mutable_model();
  std::vector<const FieldDescriptor*> set;
  model->GetReflection()->ListFields(*model, &set);
  for (const FieldDescriptor* choice : set) {
    if (choice->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || choice->is_repeated()) continue;
    const FieldDescriptor* field = choice->message_type()->FindFieldByName("num_classes");
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_INT32)
      return ClassField{model->GetReflection()->MutableMessage(model, choice), field};
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> configured_classes(const proto::TrainEvalPipelineConfig& pipeline) {
  const auto found = class_field(const_cast<proto::TrainEvalPipelineConfig&>(pipeline));  // read only
  if (!found) return std::nullopt;
  const int64_t value = found->message->GetReflection()->GetInt32(*found->message, found->field);
  return value > 0 ? std::optional<int64_t>(value) : std::nullopt;
}

void derive_classes(config::Pipeline& pipeline, const config::LabelMap& map) {
  if (configured_classes(*pipeline.message)) return;
  if (const auto found = class_field(*pipeline.message))
    found->message->GetReflection()->SetInt32(found->message, found->field, map.max_id());
}

void check_classes(const std::vector<ClassCount>& places) {
  bool agree = true;
  for (const ClassCount& place : places) agree = agree && place.classes == places.front().classes;
  if (agree) return;
  std::string table = fmt::format("the number of classes differs:\n  {:<12}  {:>7}  {}", "what", "classes", "where");
  for (const ClassCount& place : places)
    table += fmt::format("\n  {:<12}  {:>7}  {}", place.what, place.classes, place.where);
  throw ConfigError(table);
}

std::optional<config::LabelMap> label_map_of(const proto::InputReader& reader) {
  if (reader.label_map_path().empty()) return std::nullopt;
  return config::load_label_map(reader.label_map_path());
}

std::vector<std::string> class_names(const std::optional<config::LabelMap>& map, int64_t num_classes) {
  std::vector<std::string> names;
  for (int id = 1; id <= num_classes; ++id) {
    const config::LabelMap::Item* item = map ? map->find(id) : nullptr;
    names.push_back(item != nullptr ? item->shown() : std::to_string(id));
  }
  return names;
}

}  // namespace osprey::train
