#include "config/scalar.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

#include "osprey/base/nearest.h"

namespace osprey::config {
namespace {

using Field = google::protobuf::FieldDescriptor;

std::string expected(const Field* field, const Token& value) {
  return fmt::format("expected {}, found {}", kind_of(field), shown(value));
}

/// Digits as text format reads them: decimal, 0x... or 0... (octal).
bool unsigned_value(const Token& token, uint64_t& value) {
  if (token.kind != Token::Kind::kNumber) return false;
  const std::string text(token.text);
  char* end = nullptr;
  errno = 0;
  value = std::strtoull(text.c_str(), &end, 0);
  return *end == '\0' && errno == 0;
}

std::string integer_problem(const Field* field, const Token& token, bool negative) {
  struct Range {
    uint64_t below_zero, above_zero;  // largest magnitudes
  };
  Range range;
  switch (field->cpp_type()) {
    case Field::CPPTYPE_INT32:
      range = {uint64_t{1} << 31, std::numeric_limits<int32_t>::max()};
      break;
    case Field::CPPTYPE_INT64:
      range = {uint64_t{1} << 63, std::numeric_limits<int64_t>::max()};
      break;
    case Field::CPPTYPE_UINT32:
      range = {0, std::numeric_limits<uint32_t>::max()};
      break;
    default:
      range = {0, std::numeric_limits<uint64_t>::max()};
  }
  uint64_t value = 0;
  if (!unsigned_value(token, value)) return expected(field, token);
  if (value <= (negative ? range.below_zero : range.above_zero)) return "";
  return fmt::format("must be an integer from {}{} to {}, got {}{}", range.below_zero > 0 ? "-" : "", range.below_zero,
                     range.above_zero, negative ? "-" : "", token.text);
}

std::string real_problem(const Field* field, const Token& token) {
  if (token.kind == Token::Kind::kIdentifier) {
    std::string lower(token.text);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower == "inf" || lower == "infinity" || lower == "nan" ? "" : expected(field, token);
  }
  if (token.kind != Token::Kind::kNumber) return expected(field, token);
  std::string text(token.text);
  if (text.find_first_of("xX") != std::string::npos) return expected(field, token);
  if (text.back() == 'f' || text.back() == 'F') text.pop_back();
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return *end == '\0' ? "" : expected(field, token);
}

std::string enum_problem(const Field* field, const Token& token, bool negative) {
  uint64_t number = 0;
  const auto* type = field->enum_type();
  if (unsigned_value(token, number)) {
    const int value = static_cast<int>(negative ? -static_cast<int64_t>(number) : static_cast<int64_t>(number));
    return type->FindValueByNumber(value) != nullptr ? "" : fmt::format("{} has no value {}", type->name(), value);
  }
  if (token.kind != Token::Kind::kIdentifier) return expected(field, token);
  if (type->FindValueByName(std::string(token.text)) != nullptr) return "";
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) names.push_back(type->value(i)->name());
  std::string near = did_you_mean(token.text, names);
  if (near.empty()) near = fmt::format("; it has {}", fmt::join(names, ", "));
  return fmt::format("{} has no value \"{}\"{}", type->name(), token.text, near);
}

std::string bool_problem(const Field* field, const Token& token) {
  static const std::vector<std::string_view> words = {"true", "True", "t", "1", "false", "False", "f", "0"};
  if (std::find(words.begin(), words.end(), token.text) != words.end()) return "";
  uint64_t number = 0;
  if (unsigned_value(token, number) && number <= 1) return "";
  return expected(field, token) + did_you_mean(token.text, {"true", "false"});
}

}  // namespace

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  constexpr size_t kLongest = 60;
  const std::string text(token.text.substr(0, kLongest));
  const char* rest = token.text.size() > kLongest ? "..." : "";
  return token.kind == Token::Kind::kString ? fmt::format("{}{}", text, rest) : fmt::format("'{}{}'", text, rest);
}

std::string string_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else
      result += byte < 32 ? fmt::format("\\{:03o}", byte) : std::string(1, c);
  }
  return result + "\"";
}

std::string kind_of(const Field* field) {
  switch (field->cpp_type()) {
    case Field::CPPTYPE_INT32:
    case Field::CPPTYPE_INT64:
      return "an integer";
    case Field::CPPTYPE_UINT32:
    case Field::CPPTYPE_UINT64:
      return "an integer >= 0";
    case Field::CPPTYPE_FLOAT:
    case Field::CPPTYPE_DOUBLE:
      return "a number";
    case Field::CPPTYPE_BOOL:
      return "true or false";
    case Field::CPPTYPE_STRING:
      return "a string in quotes";
    case Field::CPPTYPE_ENUM:
      return "a value of " + field->enum_type()->name();
    case Field::CPPTYPE_MESSAGE:
      break;
  }
  return "a message";
}

std::string scalar_problem(const Field* field, const Token& value, bool negative) {
  switch (field->cpp_type()) {
    case Field::CPPTYPE_STRING:
      return value.kind == Token::Kind::kString && !negative ? "" : expected(field, value);
    case Field::CPPTYPE_BOOL:
      return negative ? expected(field, value) : bool_problem(field, value);
    case Field::CPPTYPE_ENUM:
      return enum_problem(field, value, negative);
    case Field::CPPTYPE_FLOAT:
    case Field::CPPTYPE_DOUBLE:
      return real_problem(field, value);
    default:
      return integer_problem(field, value, negative);
  }
}

}  // namespace osprey::config
