#include "orientation.h"

namespace osprey::data {

Orientation choose_orientation(const ImageInfo& info, int64_t annotated_height, int64_t annotated_width,
                               DecoderOptions::Exif policy) {
  if (info.orientation == 1 || policy == DecoderOptions::Exif::kIgnore) return {};
  if (policy == DecoderOptions::Exif::kApply) return {info.orientation};
  const bool as_stored = annotated_height == info.height && annotated_width == info.width;
  const bool as_turned = info.orientation >= 5 && annotated_height == info.width && annotated_width == info.height;
  if (as_turned && !as_stored) return {info.orientation};
  return {1, !as_stored || info.orientation < 5 || as_turned};
}

}  // namespace osprey::data
