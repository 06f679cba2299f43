#include "kitti_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "data/text_lines.h"

namespace osprey::data {
namespace {

struct Row {
  std::string type;
  std::vector<double> numbers;  // truncated, occluded, alpha, left, top, right, bottom, 7 more; of detections a score
};

std::optional<Row> row_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  Row row;
  size_t first = words.size();  // of the numbers; a type of several words, which CVAT allows, is what precedes them
  while (first > 1 && std::isfinite(number_of(words[first - 1]))) --first;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i < first)
      row.type += (i > 0 ? " " : "") + words[i];
    else
      row.numbers.push_back(number_of(words[i]));
  }
  const auto is_number = [&](size_t word) { return !std::isnan(number_of(words[word])); };
  const bool is_of_tracking = first > 2 && is_number(0) && is_number(1);  // begins with frame and track
  if (is_of_tracking || (row.numbers.size() != 14 && row.numbers.size() != 15)) return std::nullopt;
  const auto is_float = [](double value) { return std::isfinite(static_cast<float>(value)); };
  if (!std::all_of(row.numbers.begin(), row.numbers.end(), is_float)) return std::nullopt;
  const double truncated = row.numbers[0], occluded = row.numbers[1];
  if (truncated < -1 || truncated > 1 || occluded < -1 || occluded > 3) return std::nullopt;  // belongs to the type
  return row;
}

}  // namespace

std::vector<AnnotatedObject> kitti_objects(const std::vector<std::string>& lines, const std::string& file,
                                           Problems& problems) {
  std::vector<AnnotatedObject> objects;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (without_blanks(lines[i]).empty()) continue;
    constexpr size_t kShown = 60;
    const std::string place = fmt::format("{}:{}", file, i + 1);
    const std::optional<Row> row = row_of(lines[i]);
    if (!row) {
      problems.add(
          "object(s) left out, their rows not being \"type truncated occluded alpha left top right bottom\" and 7 or 8 "
          "numbers",
          fmt::format("{}: '{}'", place, lines[i].substr(0, kShown)));
    } else if (lower_case(row->type) == "dontcare") {
      problems.add("DontCare region(s) left out", place);
    } else {
      const auto px = [&](size_t number) { return static_cast<float>(row->numbers[number]); };
      AnnotatedObject& object = objects.emplace_back();
      object.name = row->type;
      object.truncated = row->numbers[0] > 0;
      object.box_px = {px(4), px(3), px(6), px(5)};
    }
  }
  return objects;
}

}  // namespace osprey::data
