#include "eval/result_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"

namespace osprey::eval {
namespace {

void write_readable(std::string& text, const nlohmann::ordered_json& whole, size_t indent) {
  const bool flat = !whole.is_structured() || whole.empty() ||
                    (whole.is_array() &&
                     std::none_of(whole.begin(), whole.end(), [](const auto& entry) { return entry.is_structured(); }));
  if (flat) {
    text += json_text(whole);
    return;
  }
  const std::string line_break = '\n' + std::string(indent, ' ');
  text += whole.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, value] : whole.items()) {
    text += (first ? "" : ",") + line_break + "  ";
    if (whole.is_object()) text += json_text(nlohmann::ordered_json(key)) + ": ";
    write_readable(text, value, indent + 2);
    first = false;
  }
  text += line_break + (whole.is_array() ? ']' : '}');
}

}  // namespace

void write_result(const std::filesystem::path& file, const std::string& bytes) {
  if (file.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error) throw DataError(fmt::format("{}: cannot be made: {}", file.parent_path().string(), error.message()));
  }
  write_whole(file, bytes, AtomicFile::Temporary::kPerProcess);
}

nlohmann::json id_json(const std::string& id) {
  const bool digits = !id.empty() && id.size() < 18 && id.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return std::stoll(id);
  return id;
}

std::string readable_json(const nlohmann::ordered_json& value) {
  std::string text;
  write_readable(text, value, 0);
  return text + "\n";
}

}  // namespace osprey::eval
