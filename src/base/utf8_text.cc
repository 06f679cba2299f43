#include "base/utf8_text.h"

#include <nlohmann/json.hpp>

#include "osprey/base/json_text.h"

namespace osprey {

std::string utf8_text(std::string_view text) {
  return nlohmann::json::parse(json_text(nlohmann::json(text))).get<std::string>();
}

}  // namespace osprey
