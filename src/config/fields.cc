#include "osprey/config/fields.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include "config/any.h"

namespace osprey::config {
namespace {

using google::protobuf::Message;

void visit_value(const FieldValue& value, const std::function<void(const FieldValue&)>& visit) {
  visit(value);
  if (!value.is_message()) return;
  if (const auto* any = dynamic_cast<const google::protobuf::Any*>(&value.message())) {
    if (const auto inside = open_any(*any).message) visit_fields(*inside, visit, value.path);
  } else {
    visit_fields(value.message(), visit, value.path);
  }
}

/// The entries of a map in the order of their keys, as text writes them; protobuf keeps them in none.
std::vector<int> by_key(const Message& message, const google::protobuf::FieldDescriptor* map) {
  std::vector<std::pair<std::string, int>> keys;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, map); ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, map, i);
    keys.emplace_back(FieldValue{"", &entry, map->message_type()->map_key(), -1}.text(), i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> order;
  for (const auto& key : keys) order.push_back(key.second);
  return order;
}

}  // namespace

const Message& FieldValue::message() const {
  const auto* reflection = parent->GetReflection();
  return index < 0 ? reflection->GetMessage(*parent, field) : reflection->GetRepeatedMessage(*parent, field, index);
}

std::string FieldValue::text() const {
  std::string result;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.SetExpandAny(true);
  printer.PrintFieldValueToString(*parent, field, index, &result);
  return result;
}

void visit_fields(const Message& message, const std::function<void(const FieldValue&)>& visit,
                  const std::string& path) {
  const auto* reflection = message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    const std::string field_path = path.empty() ? field->name() : fmt::format("{}.{}", path, field->name());
    if (!field->is_repeated()) {
      if (reflection->HasField(message, field)) visit_value({field_path, &message, field, -1}, visit);
      continue;
    }
    const std::vector<int> order = field->is_map() ? by_key(message, field) : std::vector<int>();
    for (int k = 0; k < reflection->FieldSize(message, field); ++k)
      visit_value({fmt::format("{}[{}]", field_path, k), &message, field, order.empty() ? k : order[k]}, visit);
  }
}

}  // namespace osprey::config
