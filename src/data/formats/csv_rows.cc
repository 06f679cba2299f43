#include "csv_rows.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "data/text_lines.h"

namespace osprey::data {

std::optional<std::vector<std::string>> csv_fields(const std::string& line, char separator) {
  std::vector<std::string> fields;
  for (size_t at = 0;;) {
    const size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos || line[begin] != '"') {
      const size_t end = std::min(line.find(separator, at), line.size());
      fields.push_back(without_blanks(line.substr(at, end - at)));
      at = end;
    } else {
      std::string field;
      for (at = begin + 1;; ++at) {
        if (at >= line.size()) return std::nullopt;
        const bool is_doubled = line[at] == '"' && at + 1 < line.size() && line[at + 1] == '"';
        if (line[at] == '"' && !is_doubled) break;
        field += line[at];
        if (is_doubled) ++at;
      }
      fields.push_back(without_blanks(field));
      at = std::min(line.find_first_not_of(' ', at + 1), line.size());
      if (at < line.size() && line[at] != separator) return std::nullopt;
    }
    if (at >= line.size()) return fields;
    ++at;
  }
}

char csv_separator(const std::string& first_line) {
  for (const char separator : {',', ';', '\t'})
    if (first_line.find(separator) != std::string::npos) return separator;
  return ',';
}

std::optional<CsvColumns> csv_columns(const std::vector<std::string>& first_line) {
  std::vector<std::string> names;
  for (const std::string& name : first_line) names.push_back(lower_case(name));
  const auto column = [&](std::initializer_list<const char*> known) {
    for (const char* name : known)
      if (const auto found = std::find(names.begin(), names.end(), name); found != names.end())
        return static_cast<size_t>(found - names.begin());
    return CsvColumns::kNone;
  };
  CsvColumns result;
  const size_t image_id = column({"imageid"});
  result.is_open_images = image_id != CsvColumns::kNone;
  result.has_header = true;
  result.picture = result.is_open_images
                       ? image_id
                       : column({"filename", "file_name", "image", "image_name", "image_path", "path", "file"});
  result.class_name = column({"class", "class_name", "label", "label_name", "labelname"});
  result.xmin = column({"xmin", "x_min", "x1"});
  result.ymin = column({"ymin", "y_min", "y1"});
  result.xmax = column({"xmax", "x_max", "x2"});
  result.ymax = column({"ymax", "y_max", "y2"});
  result.width = column({"width"});
  result.height = column({"height"});
  result.is_group_of = column({"isgroupof"});
  result.is_truncated = column({"istruncated"});
  const auto needed = {result.picture, result.class_name, result.xmin, result.ymin, result.xmax, result.ymax};
  if (std::find(needed.begin(), needed.end(), CsvColumns::kNone) == needed.end()) return result;

  constexpr size_t kFields = 6;
  if (first_line.size() != kFields || first_line[0].empty()) return std::nullopt;
  const bool all_empty = std::all_of(first_line.begin() + 1, first_line.end(), [](const auto& f) { return f.empty(); });
  const bool all_numbers = std::all_of(first_line.begin() + 1, first_line.begin() + 5,
                                       [](const auto& f) { return !std::isnan(number_of(f)); });
  if (!all_empty && !all_numbers) return std::nullopt;
  return CsvColumns();
}

}  // namespace osprey::data
