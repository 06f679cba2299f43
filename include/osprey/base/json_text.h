#pragma once
#include <cstdint>
#include <string>

namespace osprey {

/// A JSON value of nlohmann's as text. Names come from label maps and file systems, so bytes that are not UTF-8 become
/// U+FFFD instead of an error.
/// indent  spaces per level; -1: all on one line
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

/// A member of an object that a file holds, which anyone may have changed: "" or 0 where it is missing or something
/// else.
template <class Json>
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : std::string();
}
template <class Json>
int64_t integer_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->template get<int64_t>() : 0;
}

}  // namespace osprey
