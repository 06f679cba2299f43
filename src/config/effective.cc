#include "osprey/config/effective.h"

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <filesystem>

#include "osprey/config/fields.h"

namespace osprey::config {
namespace {

using google::protobuf::Message;

google::protobuf::TextFormat::Printer printer() {
  google::protobuf::TextFormat::Printer result;
  result.SetUseUtf8StringEscaping(true);
  result.SetExpandAny(true);
  return result;
}

std::string short_origin(const Origin& origin) {
  if (origin.kind == Origin::Kind::kFile)
    return fmt::format("{}:{}", std::filesystem::path(origin.source).filename().string(), origin.line);
  if (origin.kind == Origin::Kind::kOverride) return origin.source.substr(0, origin.source.find(' '));
  return "default";
}

/// Text format with comments, written along the fields that are set.
class Annotator {
 public:
  explicit Annotator(const FieldOrigins& origins) : origins_(origins) {}

  void write(const Message& message, const std::string& path, int depth) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    std::sort(fields.begin(), fields.end(), [](auto* a, auto* b) { return a->index() < b->index(); });
    for (const auto* field : fields) {
      const std::string field_path = path.empty() ? field->name() : fmt::format("{}.{}", path, field->name());
      if (!field->is_repeated()) {
        write_value({field_path, &message, field, -1}, depth);
        continue;
      }
      for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
        write_value({fmt::format("{}[{}]", field_path, i), &message, field, i}, depth);
    }
  }

  std::string text;

 private:
  void write_value(const FieldValue& value, int depth) {
    const std::string indent(2 * depth, ' ');
    if (!value.is_message()) {
      text += fmt::format("{}{}: {}  # {}\n", indent, value.field->name(), value.text(),
                          short_origin(origins_.origin(value.path)));
      return;
    }
    text += fmt::format("{}{} {{\n", indent, value.field->name());
    if (dynamic_cast<const google::protobuf::Any*>(&value.message()) != nullptr) {
      std::string inside;
      auto any_printer = printer();
      any_printer.SetInitialIndentLevel(depth + 1);
      any_printer.PrintToString(value.message(), &inside);
      text += inside;
    } else {
      write(value.message(), value.path, depth + 1);
    }
    text += indent + "}\n";
  }

  const FieldOrigins& origins_;
};

}  // namespace

std::string effective_text(const Message& message) {
  std::string text;
  printer().PrintToString(message, &text);
  return text;
}

std::string annotated_text(const Pipeline& pipeline) {
  Annotator annotator(*pipeline.sources);
  annotator.write(*pipeline.message, "", 0);
  return std::move(annotator.text);
}

std::vector<SetValue> set_values(const Pipeline& pipeline) {
  std::vector<SetValue> values;
  visit_fields(*pipeline.message, [&](const FieldValue& value) {
    if (!value.is_message()) values.push_back({value.path, value.text(), pipeline.sources->origin(value.path)});
  });
  return values;
}

std::string differences(const Message& before, const Message& after) {
  std::string lines;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&lines);
  differencer.Compare(before, after);
  return lines;
}

}  // namespace osprey::config
