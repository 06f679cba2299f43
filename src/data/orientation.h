#pragma once
#include <cstdint>

#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {

/// How a stored picture is turned before its boxes fit.
struct Orientation {
  int applied = 1;         ///< as in EXIF; 1: not at all
  bool ambiguous = false;  ///< the annotated size does not tell, so nothing is applied
};

/// Whoever drew the boxes saw the picture either as stored or upright; the annotated size tells which, unless both have
/// it.
Orientation choose_orientation(const ImageInfo& info, int64_t annotated_height, int64_t annotated_width,
                               DecoderOptions::Exif policy);

}  // namespace osprey::data
