#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "osprey/config/label_map.h"
#include "osprey/data/annotations.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {

/// What problems call a picture: its path, or where it has none its name.
std::string place_of(const AnnotatedImage& image);

/// How the kind of problem begins that an object of a class outside the label map is.
inline constexpr const char* kForeignObjects = "object(s) left out: the label map";

/// Who looks whether picture and boxes are sound.
enum class RecordCheck {
  kNow,         ///< the picture is decoded, boxes are cut to it or left out, counted
  kWhenDecoded  ///< nobody: whoever decodes the record does, by its own policies
};

/// A picture that has been read.
struct ReadPicture {
  ImageInfo info;
  at::Tensor pixels;  ///< as stored, where they were looked at; else undefined
};

/// Reads a picture into `encoded`, where its source has not, and sets height and width where they are not annotated.
/// returns  nothing, counted, where it is missing or, by kNow, cannot be decoded
std::optional<ReadPicture> read_picture(AnnotatedImage& image, RecordCheck check, Problems& problems);

/// The serialized tf.Example of a picture that has been read, with the keys that the OD API's own converters write. A
/// decoder that clips boxes gets the same from either kind of record.
///
/// classes  counts the objects that were written and are not ignored, by name
std::string record_of_picture(const AnnotatedImage& image, const ImageInfo& info, const config::LabelMap& map,
                              RecordCheck check, Problems& problems, std::map<std::string, int64_t>& classes);

/// Both, one after the other.
std::optional<std::string> record_of_image(AnnotatedImage image, const config::LabelMap& map, RecordCheck check,
                                           Problems& problems, std::map<std::string, int64_t>& classes);

}  // namespace osprey::data
