#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "osprey/config/label_map.h"
#include "osprey/data/annotations.h"

namespace osprey::data {

/// The serialized tf.Example of an annotated picture, with the keys that the OD API's own converters write.
///
/// classes  counts the objects that were written, by name
/// returns  nothing, counted, where the picture is missing or cannot be decoded
std::optional<std::string> record_of_image(const AnnotatedImage& image, const config::LabelMap& map, Problems& problems,
                                           std::map<std::string, int64_t>& classes);

}  // namespace osprey::data
