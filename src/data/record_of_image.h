#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "osprey/config/label_map.h"
#include "osprey/data/annotations.h"

namespace osprey::data {

/// How the kind of problem begins that an object of a class outside the label map is.
inline constexpr const char* kForeignObjects = "object(s) left out: the label map";

/// Who looks whether picture and boxes are sound.
enum class RecordCheck {
  kNow,         ///< the picture is decoded, boxes are cut to it or left out, counted
  kWhenDecoded  ///< nobody: whoever decodes the record does, by its own policies
};

/// The serialized tf.Example of an annotated picture, with the keys that the OD API's own converters write. A decoder
/// that clips boxes gets the same from either kind of record.
///
/// classes  counts the objects that were written, by name
/// returns  nothing, counted, where the picture is missing or, by kNow, cannot be decoded
std::optional<std::string> record_of_image(AnnotatedImage image, const config::LabelMap& map, RecordCheck check,
                                           Problems& problems, std::map<std::string, int64_t>& classes);

}  // namespace osprey::data
