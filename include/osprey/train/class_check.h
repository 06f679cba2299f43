#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/config/pipeline.h"

namespace osprey::train {

/// One place that says how many classes there are.
struct ClassCount {
  std::string what;  ///< "config", "label map", "checkpoint"
  int64_t classes = 0;
  std::string where;  ///< field or file
};

/// throws ConfigError with a table of three columns where the places do not agree
void check_classes(const std::vector<ClassCount>& places);

/// Where the label map of a reader stands: its file, or the annotations whose classes it has.
std::string place_of_classes(const proto::InputReader& reader);

/// Names by 0-based class: the map's display names, the id where it has a gap.
std::vector<std::string> class_names(const std::optional<config::LabelMap>& map, int64_t num_classes);

}  // namespace osprey::train
