#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "features.h"

namespace osprey::config {
struct LabelMap;
}

namespace osprey::data {

/// What a record says about the class of one object.
struct ObjectLabel {
  bool has_id = false;                ///< false: there is a text only, and the label map does not have it
  int64_t id = 0;                     ///< 1-based: that of the text where the label map has it, else the label
  const std::string* text = nullptr;  ///< in the features; null where there is none
  bool text_is_known = false;         ///< to the label map
};

/// One for each label or text, without a look at pictures and boxes.
/// map     may be null
/// throws  BadRecord where labels or texts have another type
std::vector<ObjectLabel> object_labels(const Features& features, const config::LabelMap* map);

/// Why a class id is unknown; nullptr where it is not.
/// num_classes  0: not given
const char* fault_of_id(int64_t id, int64_t num_classes, const config::LabelMap* map);

}  // namespace osprey::data
