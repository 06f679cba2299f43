#include "jpeg_head.h"

#include <algorithm>

#include "exif.h"
#include "osprey/base/error.h"

namespace osprey::data {
namespace {

uint32_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 1, true)); }
uint32_t big16(std::string_view bytes, size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 2, true)); }

}  // namespace

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
