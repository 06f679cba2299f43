#include "jpeg_head.h"

#include "osprey/base/error.h"

namespace osprey::data {
namespace {

uint32_t byte_at(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}
uint32_t big16(std::string_view bytes, size_t at) { return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1); }

// A number of 2 or 4 bytes in the byte order of the TIFF block; 0 beyond its end.
uint32_t tiff_number(std::string_view tiff, size_t at, int size, bool big) {
  uint32_t value = 0;
  for (int i = 0; i < size; ++i) value = value << 8 | byte_at(tiff, at + static_cast<size_t>(big ? i : size - 1 - i));
  return value;
}

}  // namespace

int tiff_orientation(std::string_view tiff) {
  constexpr uint32_t kOrientation = 0x0112;
  if (tiff.size() < 8) return 1;
  const bool big = tiff.substr(0, 2) == "MM";
  if (!big && tiff.substr(0, 2) != "II") return 1;
  const size_t directory = tiff_number(tiff, 4, 4, big);
  const uint32_t entries = tiff_number(tiff, directory, 2, big);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (entry + 12 > tiff.size()) break;
    if (tiff_number(tiff, entry, 2, big) != kOrientation) continue;
    const uint32_t value = tiff_number(tiff, entry + 8, 2, big);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

bool is_jpeg(std::string_view encoded) { return encoded.substr(0, 3) == "\xff\xd8\xff"; }

JpegHead jpeg_head(std::string_view encoded) {
  JpegHead head;
  for (size_t at = 2; at + 4 <= encoded.size();) {
    if (byte_at(encoded, at) != 0xff) {  // stray bytes between segments: libjpeg skips them, too
      ++at;
      continue;
    }
    const uint32_t marker = byte_at(encoded, at + 1);
    if (marker == 0xff || marker == 0x00) {
      ++at;
      continue;
    }
    at += 2;
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;  // no length
    if (marker == 0xd9 || marker == 0xda) break;                         // end of image, start of scan
    const uint32_t length = big16(encoded, at);
    const std::string_view body = encoded.substr(at, length).substr(std::min<size_t>(2, encoded.size() - at));
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      head.height = big16(body, 1);
      head.width = big16(body, 3);
      head.components = static_cast<int>(byte_at(body, 5));
    } else if (marker == 0xe1 && body.substr(0, 6) == std::string_view("Exif\0\0", 6)) {
      head.orientation = tiff_orientation(body.substr(6));
    } else if (marker == 0xee && body.substr(0, 5) == "Adobe") {
      head.adobe = true;
    }
    at += std::max<size_t>(length, 2);
  }
  if (head.height == 0 || head.width == 0) throw DataError("damaged JPEG: no frame before the end of its head");
  return head;
}

}  // namespace osprey::data
