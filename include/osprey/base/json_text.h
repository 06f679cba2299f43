#pragma once
#include <string>

namespace osprey {

/// A JSON value of nlohmann's as text. Names come from label maps and file systems, so bytes that are not UTF-8 become
/// U+FFFD instead of an error.
/// indent  spaces per level; -1: all on one line
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace osprey
