#include "exif.h"

#include <algorithm>
#include <array>
#include <optional>

namespace osprey::data {
namespace {

constexpr std::string_view kPng("\x89PNG\r\n\x1a\n", 8);
constexpr std::array kTiffs = {std::string_view("II*\0", 4), std::string_view("MM\0*", 4), std::string_view("II+\0", 4),
                               std::string_view("MM\0+", 4)};

bool is_tiff(std::string_view encoded) {
  return std::find(kTiffs.begin(), kTiffs.end(), encoded.substr(0, 4)) != kTiffs.end();
}

bool is_webp(std::string_view encoded) {
  return encoded.size() >= 12 && encoded.starts_with("RIFF") && encoded.substr(8, 4) == "WEBP";
}

/// Of a directory: its type, the number of its values, and what it says.
struct Entry {
  size_t at = 0, count_bytes = 4;
  bool big = false;

  size_t type_at() const { return at + 2; }
  size_t count_at() const { return at + 4; }
  size_t value_at() const { return count_at() + count_bytes; }
};

// That of the orientation; nothing where there is none.
std::optional<Entry> orientation_entry(std::string_view tiff) {
  constexpr uint64_t kOrientation = 0x0112, kBigTiff = 43;
  const bool big = tiff.starts_with("MM");
  if (tiff.size() < 8 || (!big && !tiff.starts_with("II"))) return std::nullopt;
  const bool wide = number_at(tiff, 2, 2, big) == kBigTiff;
  const uint64_t directory = wide ? number_at(tiff, 8, 8, big) : number_at(tiff, 4, 4, big);
  if (directory >= tiff.size()) return std::nullopt;
  const uint64_t entries = number_at(tiff, directory, wide ? 8 : 2, big);
  const size_t first = directory + (wide ? 8 : 2), size = wide ? 20 : 12;
  for (size_t at = first; (at - first) / size < entries && at + size <= tiff.size(); at += size)
    if (number_at(tiff, at, 2, big) == kOrientation) return Entry{at, wide ? size_t{8} : size_t{4}, big};
  return std::nullopt;
}

// Of a value of this type; of one that is no whole number as many as the type has that it should be of.
int bytes_of_type(uint64_t type) {
  enum : uint64_t { kByte = 1, kLong = 4, kSignedByte = 6, kSignedLong = 9, kLong8 = 16, kSignedLong8 = 17 };
  switch (type) {
    case kByte:
    case kSignedByte:
      return 1;
    case kLong:
    case kSignedLong:
      return 4;
    case kLong8:
    case kSignedLong8:
      return 8;
    default:
      return 2;
  }
}

int png_orientation(std::string_view encoded) {
  for (size_t at = kPng.size(); at + 12 <= encoded.size();) {
    const uint64_t length = number_at(encoded, at, 4, true);
    const std::string_view type = encoded.substr(at + 4, 4);
    if (type == "IDAT" || length > encoded.size()) break;
    if (type == "eXIf") return tiff_orientation(encoded.substr(at + 8, length));
    at += 12 + length;
  }
  return 1;
}

// Some programs begin its chunk as a JPEG's.
int webp_orientation(std::string_view encoded) {
  constexpr std::string_view kOfJpeg("Exif\0\0", 6);
  for (size_t at = 12; at + 8 <= encoded.size();) {
    const uint64_t length = number_at(encoded, at + 4, 4, false);
    if (encoded.substr(at, 4) == "EXIF") {
      std::string_view exif = encoded.substr(at + 8, length);
      if (exif.starts_with(kOfJpeg)) exif.remove_prefix(kOfJpeg.size());
      return tiff_orientation(exif);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

}  // namespace

uint64_t number_at(std::string_view bytes, size_t at, int size, bool big) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) {
    const size_t place = at + static_cast<size_t>(big ? i : size - 1 - i);
    value = value << 8 | (place < bytes.size() ? static_cast<unsigned char>(bytes[place]) : 0);
  }
  return value;
}

bool is_png(std::string_view encoded) { return encoded.starts_with(kPng); }

int tiff_orientation(std::string_view tiff) {
  const std::optional<Entry> entry = orientation_entry(tiff);
  if (!entry) return 1;
  const int size = bytes_of_type(number_at(tiff, entry->type_at(), 2, entry->big));
  const uint64_t value = number_at(tiff, entry->value_at(), size, entry->big);
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

int exif_orientation(std::string_view encoded) {
  if (is_png(encoded)) return png_orientation(encoded);
  if (is_webp(encoded)) return webp_orientation(encoded);
  return is_tiff(encoded) ? tiff_orientation(encoded) : 1;
}

std::string tiff_with_orientation_1(std::string_view encoded) {
  if (!is_tiff(encoded) || tiff_orientation(encoded) == 1) return "";
  std::string result(encoded);
  const Entry entry = *orientation_entry(encoded);
  const auto put = [&](size_t at, size_t size, char value) {
    std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(at), size, '\0');
    result[entry.big ? at + size - 1 : at] = value;
  };
  constexpr char kShort = 3;
  put(entry.type_at(), 2, kShort);
  put(entry.count_at(), entry.count_bytes, 1);
  put(entry.value_at(), 2, 1);
  return result;
}

}  // namespace osprey::data
