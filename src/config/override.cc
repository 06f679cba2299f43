#include "osprey/config/override.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "config/scalar.h"
#include "config/walker.h"
#include "osprey/base/nearest.h"
#include "osprey/config/fields.h"
#include "osprey/config/parse.h"

namespace osprey::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Drops the origins of fields that are no longer set, such as the other members of a oneof.
void forget_unset(const Message& message, FieldOrigins& origins) {
  std::set<std::string, std::less<>> set;
  visit_fields(message, [&](const FieldValue& value) {
    set.insert(value.path);
    if (value.index >= 0) set.insert(value.path.substr(0, value.path.rfind('[')));
  });
  std::vector<std::string> gone;
  for (const auto& [path, origin] : origins.all())
    if (set.count(path) == 0) gone.push_back(path);
  for (const std::string& path : gone) origins.erase(path);
}

/// One assignment on its way down to the field it sets.
class Assignment {
 public:
  Assignment(Message& root, FieldOrigins& origins, const std::string& text)
      : message_(&root), root_(&root), origins_(origins), text_(text) {}

  void apply() {
    const size_t equals = text_.find('=');
    if (equals == std::string::npos || equals == 0) fail(text_, "must have the form path.to.field=value");
    appends_ = text_[equals - 1] == '+';
    std::string path = text_.substr(0, equals - appends_);
    const std::string value = text_.substr(equals + 1);
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.')) {
      descend(path.substr(0, dot));
      path.erase(0, dot + 1);
    }
    assign(path, value);
    forget_unset(*root_, origins_);
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& message) const {
    throw ConfigError(describe(origin(), path, message));
  }

  Origin origin() const { return {Origin::Kind::kOverride, "--set " + text_, 0, 0, ""}; }

  /// "; did you mean ...?" with the fields of this name in the messages of a type; empty where none has it.
  static std::string named_below(const google::protobuf::Descriptor* type, std::string path, const std::string& name) {
    path.resize(path.size() - name.size());
    std::string result;
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (field->is_repeated() || field->message_type() == nullptr ||
          field->message_type()->FindFieldByName(name) == nullptr)
        continue;
      result += fmt::format("{}\"{}{}.{}\"", result.empty() ? "; did you mean " : " or ", path, field->name(), name);
    }
    return result.empty() ? "" : result + "?";
  }

  /// "name" or "name[3]" -> its field; index_ is the number in brackets or -1. Extends path_.
  const FieldDescriptor* resolve(const std::string& step) {
    const size_t bracket = step.find('[');
    const std::string name = step.substr(0, bracket);
    const std::string path = path_.empty() ? name : fmt::format("{}.{}", path_, name);
    const auto* type = message_->GetDescriptor();
    const auto* field = type->FindFieldByName(name);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
      const std::string below = named_below(type, path, name);
      fail(path,
           fmt::format("{} has no such field{}", type->name(), below.empty() ? did_you_mean(name, names) : below));
    }
    index_ = -1;
    path_ = path;
    if (bracket == std::string::npos) return field;
    const std::string digits = step.substr(bracket + 1, step.size() - bracket - 2);
    constexpr size_t kMostDigits = 9;
    if (step.back() != ']' || digits.empty() || digits.size() > kMostDigits ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      fail(path, fmt::format("'{}' is not an index; write {}[0]", step.substr(bracket), name));
    if (!field->is_repeated()) fail(path, "is not a list and takes no index");
    index_ = std::stoi(digits);
    const int size = message_->GetReflection()->FieldSize(*message_, field);
    if (index_ > size)
      fail(path, fmt::format("index {} is out of range: the list has {} element{}, and [{}] appends", index_, size,
                             size == 1 ? "" : "s", size));
    path_ += fmt::format("[{}]", index_);
    return field;
  }

  void descend(const std::string& step) {
    const FieldDescriptor* field = resolve(step);
    const auto* reflection = message_->GetReflection();
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      fail(path_, fmt::format("is {}, it has no fields", kind_of(field)));
    if (field->is_repeated() && index_ < 0) {
      if (const int size = reflection->FieldSize(*message_, field); size != 1)
        fail(path_, fmt::format("is a list of {}: name an element, as in {}[0]", size, field->name()));
      index_ = 0;
      path_ += "[0]";
    }
    const bool is_new = field->is_repeated() ? index_ == reflection->FieldSize(*message_, field)
                                             : !reflection->HasField(*message_, field);
    if (is_new) origins_.set(path_, origin());
    if (!field->is_repeated())
      message_ = reflection->MutableMessage(message_, field);
    else
      message_ = is_new ? reflection->AddMessage(message_, field)
                        : reflection->MutableRepeatedMessage(message_, field, index_);
  }

  void assign(const std::string& step, const std::string& value) {
    const FieldDescriptor* field = resolve(step);
    const auto* reflection = message_->GetReflection();
    if (appends_ && (!field->is_repeated() || index_ >= 0)) fail(path_, "+= is for lists");
    if (appends_ && value.empty()) fail(path_, "nothing stands behind +=");
    if (value.empty()) {
      if (index_ >= 0) fail(path_, "one element of a list cannot be cleared");
      reflection->ClearField(message_, field);
      return origins_.erase(path_);
    }
    const std::unique_ptr<Message> given = parse_value(field, value);
    const int count = field->is_repeated() ? reflection->FieldSize(*given, field) : 1;
    if (!field->is_repeated()) {
      // SwapFields does not clear what else the oneof held.
      if (const auto* oneof = field->real_containing_oneof()) reflection->ClearOneof(message_, oneof);
      reflection->SwapFields(message_, given.get(), {field});
      return record(path_);
    }
    if (index_ >= 0) {
      if (count != 1) fail(path_, "takes one value");
      const int size = reflection->FieldSize(*message_, field);
      message_->MergeFrom(*given);
      if (index_ < size) {
        reflection->SwapElements(message_, field, index_, size);
        reflection->RemoveLast(message_, field);
      }
      return record(path_);
    }
    if (!appends_) {
      reflection->ClearField(message_, field);
      origins_.erase(path_);
    }
    const int size = reflection->FieldSize(*message_, field);
    message_->MergeFrom(*given);
    for (int i = 0; i < count; ++i) record(fmt::format("{}[{}]", path_, size + i));
  }

  /// Everything at and below a path now comes from this assignment.
  void record(const std::string& path) {
    origins_.erase(path);
    origins_.set(path, origin());
    visit_fields(*root_, [&](const FieldValue& value) {
      if (value.path.compare(0, path.size(), path) == 0 && value.path.size() > path.size() &&
          value.path[path.size()] == '.')
        origins_.set(value.path, origin());
    });
  }

  /// A message like the one that holds the field, with only the given value in it.
  std::unique_ptr<Message> parse_value(const FieldDescriptor* field, const std::string& value) const {
    const std::string text = fmt::format("{}: {}", field->name(), as_text(field, value));
    std::unique_ptr<Message> given(message_->New());
    Walker walker(text, "", message_->GetDescriptor(), nullptr);
    google::protobuf::TextFormat::Parser parser;
    Silent silent;
    parser.RecordErrorsTo(&silent);
    parser.SetRecursionLimit(kMaxNesting);
    const bool good = !walker.too_deep && parser.ParseFromString(text, given.get());
    std::vector<const FieldDescriptor*> fields;
    given->GetReflection()->ListFields(*given, &fields);
    if (good && (fields.empty() || (fields.size() == 1 && fields[0] == field))) return given;
    std::string errors;
    for (const Finding& finding : walker.findings) {
      // The walker calls the field by its own name, or name[0]; what stands behind that is kept.
      std::string below = finding.path.substr(std::min(finding.path.size(), field->name().size()));
      if (below.compare(0, 3, "[0]") == 0 && path_.back() == ']') below.erase(0, 3);
      errors += (errors.empty() ? "" : "\n") + describe(origin(), path_ + below, finding.message);
    }
    if (errors.empty()) fail(path_, fmt::format("'{}' is not one value of this field", value));
    throw ConfigError(errors);
  }

  struct Silent final : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  };

  /// The value as text format has it: bare strings get quotes, messages without braces get them.
  std::string as_text(const FieldDescriptor* field, const std::string& value) const {
    const bool is_list = field->is_repeated() && index_ < 0 && value.front() == '[' && value.back() == ']';
    if (is_list) return value;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const size_t first = value.find_first_not_of(" \t\n");
      return first != std::string::npos && (value[first] == '{' || value[first] == '<')
                 ? value
                 : fmt::format("{{ {}\n}}", value);
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return value;
    const bool has_quotes =
        value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
    return has_quotes ? value : string_literal(value);
  }

  Message* message_;
  Message* root_;
  FieldOrigins& origins_;
  const std::string& text_;
  std::string path_;
  int index_ = -1;
  bool appends_ = false;
};

}  // namespace

void apply_override(Message& message, FieldOrigins& origins, const std::string& assignment) {
  // On a copy, so that an assignment that fails half-way down leaves nothing behind.
  std::unique_ptr<Message> changed(message.New());
  changed->CopyFrom(message);
  FieldOrigins changed_origins = origins;
  Assignment(*changed, changed_origins, assignment).apply();
  message.GetReflection()->Swap(&message, changed.get());
  origins = std::move(changed_origins);
}

void merge_override(Message& message, FieldOrigins& origins, const std::string& text) {
  const auto merged = parse_into(message, text, "--config_override");
  for (const auto& [path, origin] : merged->all()) {
    Origin override_origin = origin;
    override_origin.kind = Origin::Kind::kOverride;
    origins.set(path, std::move(override_origin));
  }
  forget_unset(message, origins);
}

}  // namespace osprey::config
