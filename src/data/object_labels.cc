#include "object_labels.h"

#include <algorithm>

#include "osprey/config/label_map.h"

namespace osprey::data {

std::vector<ObjectLabel> object_labels(const Features& features, const config::LabelMap* map) {
  const auto labels = features.ints("image/object/class/label");
  const auto texts = features.strings("image/object/class/text");
  std::vector<ObjectLabel> result(std::max(labels.size(), texts.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    ObjectLabel& object = result[i];
    if (i < texts.size()) object.text = texts[i];
    const bool named = object.text != nullptr && !object.text->empty();
    const config::LabelMap::Item* item = map != nullptr && named ? map->find(*object.text) : nullptr;
    object.text_is_known = item != nullptr;
    object.has_id = item != nullptr || i < labels.size();
    if (object.has_id) object.id = item != nullptr ? item->id : labels[i];
  }
  return result;
}

const char* fault_of_id(int64_t id, int64_t num_classes, const config::LabelMap* map) {
  if (id < 1) return "ids begin at 1";
  if (num_classes > 0 && id > num_classes) return "above num_classes";
  if (map != nullptr && (id > map->max_id() || map->find(static_cast<int>(id)) == nullptr))
    return "not in the label map";
  return nullptr;
}

}  // namespace osprey::data
