#include "osprey/train/class_check.h"

#include <fmt/format.h>

#include "osprey/base/error.h"

namespace osprey::train {

void check_classes(const std::vector<ClassCount>& places) {
  bool agree = true;
  for (const ClassCount& place : places) agree = agree && place.classes == places.front().classes;
  if (agree) return;
  std::string table = fmt::format("the number of classes differs:\n  {:<12}  {:>7}  {}", "what", "classes", "where");
  for (const ClassCount& place : places)
    table += fmt::format("\n  {:<12}  {:>7}  {}", place.what, place.classes, place.where);
  throw ConfigError(table);
}

std::string place_of_classes(const proto::InputReader& reader) {
  if (!reader.has_label_map()) return reader.label_map_path();
  return reader.has_annotation_input_reader() ? "label_map, classes of " + reader.annotation_input_reader().input()
                                              : "label_map of the reader";
}

std::vector<std::string> class_names(const std::optional<config::LabelMap>& map, int64_t num_classes) {
  std::vector<std::string> names;
  for (int id = 1; id <= num_classes; ++id) {
    const config::LabelMap::Item* item = map ? map->find(id) : nullptr;
    names.push_back(item != nullptr ? item->shown() : std::to_string(id));
  }
  return names;
}

}  // namespace osprey::train
