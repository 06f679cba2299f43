#pragma once
#include <cstdint>
#include <string_view>

namespace osprey::data {

/// What the markers of a JPEG before its first scan say.
struct JpegHead {
  int64_t height = 0, width = 0;
  int components = 0;
  bool adobe = false;   ///< has Adobe's marker: CMYK values are stored inverted
  int orientation = 1;  ///< EXIF orientation 1..8
};

/// Whether the bytes begin like a JPEG.
bool is_jpeg(std::string_view encoded);

/// throws DataError where no frame is found before the bytes end
/// source  ITU T.81, annex B; Exif 2.3, section 4.6.4
JpegHead jpeg_head(std::string_view encoded);

}  // namespace osprey::data
