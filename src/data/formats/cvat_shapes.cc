#include "cvat_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text_lines.h"
#include "extent.h"

namespace osprey::data {
namespace {

double number(const pugi::xml_node& shape, const char* name) {
  return number_of(without_blanks(shape.attribute(name).value()));
}

/// The numbers between any of the separators; empty where one of them is none.
std::vector<double> numbers_between(const std::string& text, const char* separators) {
  std::vector<double> result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    result.push_back(number_of(without_blanks(text.substr(begin, end - begin))));
    if (std::isnan(result.back())) return {};
    begin = end + 1;
  }
  return result;
}

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

/// Turned clockwise about its centre.
Extent turned_box(const Extent& box, double degrees) {
  const double x = (box.xmin + box.xmax) / 2, y = (box.ymin + box.ymax) / 2;
  const double c = std::cos(radians(degrees)), s = std::sin(radians(degrees));
  std::vector<double> corners;
  for (const auto& [px, py] : {std::pair{box.xmin, box.ymin}, std::pair{box.xmax, box.ymin},
                               std::pair{box.xmax, box.ymax}, std::pair{box.xmin, box.ymax}}) {
    corners.push_back(x + c * (px - x) - s * (py - y));
    corners.push_back(y + s * (px - x) + c * (py - y));
  }
  return extent_of_outline(corners.data(), 4);
}

Extent ellipse(const pugi::xml_node& shape, double degrees) {
  const double x = number(shape, "cx"), y = number(shape, "cy"), rx = number(shape, "rx"), ry = number(shape, "ry");
  const double c = std::cos(radians(degrees)), s = std::sin(radians(degrees));
  const double half_width = std::hypot(rx * c, ry * s), half_height = std::hypot(rx * s, ry * c);
  return {x - half_width, y - half_height, x + half_width, y + half_height, std::numbers::pi * std::abs(rx * ry)};
}

/// Runs of pixels of a box, row by row, by turns outside and inside the object; where they do not fill the box its area
/// is not known.
Extent mask(const pugi::xml_node& shape) {
  const double left = number(shape, "left"), top = number(shape, "top"), width = number(shape, "width"),
               height = number(shape, "height");
  double of_turn[2] = {0, 0};
  const std::vector<double> runs = numbers_between(shape.attribute("rle").value(), ",");
  for (size_t i = 0; i < runs.size(); ++i) of_turn[i % 2] += runs[i];
  return {left, top, left + width, top + height, of_turn[0] + of_turn[1] == width * height ? of_turn[1] : 0};
}

Extent polygon(const pugi::xml_node& shape) {
  const std::vector<double> xy = numbers_between(shape.attribute("points").value(), ",;");
  if (xy.size() < 2 || xy.size() % 2 != 0) return {std::nan(""), 0, 0, 0, 0};
  return extent_of_outline(xy.data(), xy.size() / 2);
}

bool flag(const pugi::xml_node& shape, std::string_view name) {
  for (const pugi::xml_node& attribute : shape.children("attribute"))
    if (lower_case(attribute.attribute("name").value()) == name)
      return says_yes(without_blanks(attribute.child_value()));
  return false;
}

}  // namespace

std::optional<AnnotatedObject> cvat_object(const pugi::xml_node& shape, const std::string& place, Problems& problems) {
  const std::string_view kind = shape.name();
  const double degrees = shape.attribute("rotation") ? number(shape, "rotation") : 0;
  const bool is_turned = kind == "box" && degrees != 0;
  Extent extent;
  if (kind == "box") {
    extent = {number(shape, "xtl"), number(shape, "ytl"), number(shape, "xbr"), number(shape, "ybr"), 0};
    if (is_turned) extent = turned_box(extent, degrees);
  } else if (kind == "polygon") {
    extent = polygon(shape);
  } else if (kind == "ellipse") {
    extent = ellipse(shape, degrees);
  } else if (kind == "mask") {
    extent = mask(shape);
  } else {
    problems.add(fmt::format("object(s) left out, being no boxes but of kind '{}'", kind), place);
    return std::nullopt;
  }
  AnnotatedObject object;
  object.name = without_blanks(shape.attribute("label").value());
  object.box_px = {static_cast<float>(extent.ymin), static_cast<float>(extent.xmin), static_cast<float>(extent.ymax),
                   static_cast<float>(extent.xmax)};
  object.area_px = static_cast<float>(extent.area);
  const Box& box = object.box_px;
  if (object.name.empty()) {
    problems.add("object(s) left out, having no label", place);
    return std::nullopt;
  }
  if (!std::isfinite(box.ymin + box.xmin + box.ymax + box.xmax + object.area_px)) {
    problems.add("object(s) left out, their coordinates not being numbers", place);
    return std::nullopt;
  }
  if (kind != "box" || is_turned)
    problems.add(
        fmt::format("{} taken as the boxes around them", is_turned ? "turned box(es)" : fmt::format("{}(s)", kind)),
        place);
  object.difficult = flag(shape, "difficult");
  object.truncated = flag(shape, "truncated");
  object.is_crowd = flag(shape, "is_crowd");
  object.group_of = flag(shape, "is_group_of");
  return object;
}

}  // namespace osprey::data
