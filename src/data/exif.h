#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace osprey::data {

/// A number of up to 8 bytes, those beyond the end being 0.
/// big  the first byte is the highest
uint64_t number_at(std::string_view bytes, size_t at, int size, bool big);

/// Whether the bytes begin like a PNG.
bool is_png(std::string_view encoded);

/// The orientation that the first directory of a TIFF says (a file, or the content of EXIF data), 1..8; 1 where there
/// is none.
/// source  TIFF 6.0, section 2; BigTIFF as libtiff 4 has it
int tiff_orientation(std::string_view tiff);

/// The EXIF orientation of a PNG, WebP or TIFF; 1 where there is none, and of other formats. (JPEG: see JpegHead.)
int exif_orientation(std::string_view encoded);

/// The same TIFF with orientation 1, for decoders that turn what they read; empty where it has that already, or is
/// none.
std::string tiff_with_orientation_1(std::string_view encoded);

}  // namespace osprey::data
