#include "rare_classes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "features.h"
#include "object_labels.h"
#include "osprey/config/label_map.h"
#include "osprey/data/random.h"
#include "osprey/data/read_report.h"

namespace osprey::data {
namespace {

constexpr uint64_t kOperation = (uint64_t{1} << 32) + 1;  // whose draws these are

std::vector<int64_t> classes_in(const ExampleIndex& index, int64_t record, const config::LabelMap* map) {
  std::set<int64_t> classes;
  try {
    const std::string bytes = index.read(record);
    const Features features(bytes, index.origin(record).describe());
    for (const ObjectLabel& object : object_labels(features, map))
      if (object.has_id) classes.insert(object.id);
  } catch (const BadRecord&) {
    // named and counted by whoever reads it in earnest
  }
  return {classes.begin(), classes.end()};
}

}  // namespace

std::vector<int64_t> repeats_of_records(const ExampleIndex& index, const config::LabelMap* map, double threshold,
                                        uint64_t seed) {
  std::vector<std::vector<int64_t>> classes;
  std::map<int64_t, int64_t> records_with;
  for (int64_t i = 0; i < index.size(); ++i) {
    classes.push_back(classes_in(index, i, map));
    for (const int64_t id : classes.back()) ++records_with[id];
  }
  std::vector<int64_t> repeats;
  for (size_t i = 0; i < classes.size(); ++i) {
    double times = 1;
    for (const int64_t id : classes[i]) {
      const double share = static_cast<double>(records_with[id]) / static_cast<double>(classes.size());
      times = std::max(times, std::sqrt(threshold / share));
    }
    const double whole = std::floor(times);
    KeyedDraws draws({seed, 0, i, kOperation});
    repeats.push_back(static_cast<int64_t>(whole) + (draws.uniform(0, 1) < static_cast<float>(times - whole) ? 1 : 0));
  }
  return repeats;
}

}  // namespace osprey::data
