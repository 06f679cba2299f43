#include "most_boxes.h"

#include <algorithm>
#include <string>

#include "osprey/data/read_report.h"
#include "osprey/records/example.pb.h"

namespace osprey::data {
namespace {

// Boxes of which a decoder that clips leaves something.
size_t boxes_inside(const records::Example& example) {
  const auto& features = example.features().feature();
  const auto side = [&](const char* key) -> const auto& {
    static const records::FloatList none;
    const auto found = features.find(std::string("image/object/bbox/") + key);
    return found == features.end() ? none.value() : found->second.float_list().value();
  };
  const auto &ymin = side("ymin"), &xmin = side("xmin"), &ymax = side("ymax"), &xmax = side("xmax");
  const int size = std::min({ymin.size(), xmin.size(), ymax.size(), xmax.size()});
  size_t boxes = 0;
  for (int i = 0; i < size; ++i)
    if (std::max(ymin[i], 0.0f) < std::min(ymax[i], 1.0f) && std::max(xmin[i], 0.0f) < std::min(xmax[i], 1.0f)) ++boxes;
  return boxes;
}

}  // namespace

int64_t most_boxes(const ExampleIndex& index) {
  size_t most = 1;
  for (int64_t i = 0; i < index.size(); ++i) {
    records::Example example;
    try {
      if (!example.ParseFromString(index.read(i))) continue;
    } catch (const BadRecord&) {  // named and counted by whoever reads it in earnest
      continue;
    }
    most = std::max(most, boxes_inside(example));
  }
  return static_cast<int64_t>(most);
}

}  // namespace osprey::data
