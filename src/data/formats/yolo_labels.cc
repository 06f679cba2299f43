#include "yolo_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "data/text_lines.h"
#include "extent.h"

namespace osprey::data {
namespace {

// Nothing where one of the words is no finite number.
std::optional<std::vector<double>> numbers_of(const std::string& line) {
  constexpr const char* kBlanks = " \t";
  std::vector<double> result;
  for (size_t begin = line.find_first_not_of(kBlanks); begin != std::string::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
    if (error != std::errc() || stop != line.data() + end || !std::isfinite(value)) return std::nullopt;
    result.push_back(value);
    begin = line.find_first_not_of(kBlanks, end);
  }
  return result;
}

Extent centred(const double* box) {
  return {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2, 0};
}

bool is_fraction(double value) {
  constexpr double kRounding = 0.01;  // of tools that write few digits; what is too much is cut from the box
  return value >= -kRounding && value <= 1 + kRounding;
}

}  // namespace

std::vector<AnnotatedObject> yolo_objects(const std::vector<std::string>& lines, const std::string& file,
                                          int64_t height, int64_t width, const YoloLabelOptions& options,
                                          Problems& problems) {
  std::vector<AnnotatedObject> objects;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (without_blanks(lines[i]).empty()) continue;
    constexpr size_t kShown = 40;
    const std::string place = fmt::format("{}:{}", file, i + 1), text = lines[i].substr(0, kShown);
    const std::optional<std::vector<double>> numbers = numbers_of(lines[i]);
    const size_t count = numbers ? numbers->size() : 0;
    const bool is_pose = options.keypoint_numbers > 0 && count == 5 + static_cast<size_t>(options.keypoint_numbers);
    const bool is_box = count == 5 || count == 6 || is_pose, is_outline = !is_box && count >= 7 && count % 2 == 1;
    if ((!is_box && !is_outline) || (*numbers)[0] != std::floor((*numbers)[0])) {
      problems.add("object(s) left out, their lines not being \"class x y width height\"",
                   fmt::format("{}: '{}'", place, text));
      continue;
    }
    const auto name =
        std::abs((*numbers)[0]) < 1e9 ? options.names.find(static_cast<int64_t>((*numbers)[0])) : options.names.end();
    if (name == options.names.end()) {
      problems.add("object(s) left out, being of an unknown class", fmt::format("{}: class {}", place, (*numbers)[0]));
    } else if (name->second.empty()) {
      problems.add("object(s) left out, being of a class without a name",
                   fmt::format("{}: class {}", place, (*numbers)[0]));
    } else if (!std::all_of(numbers->begin() + 1, is_box ? numbers->begin() + 5 : numbers->end(), is_fraction)) {
      problems.add("object(s) left out, having coordinates outside 0..1", fmt::format("{}: '{}'", place, text));
    } else {
      const Extent shape = is_box ? centred(&(*numbers)[1]) : extent_of_outline(&(*numbers)[1], count / 2);
      const auto h = static_cast<double>(height), w = static_cast<double>(width);
      AnnotatedObject object;
      object.name = name->second;
      object.box_px = {static_cast<float>(shape.ymin * h), static_cast<float>(shape.xmin * w),
                       static_cast<float>(shape.ymax * h), static_cast<float>(shape.xmax * w)};
      object.area_px = static_cast<float>(shape.area * h * w);
      objects.push_back(std::move(object));
    }
  }
  return objects;
}

}  // namespace osprey::data
