#pragma once
#include <cstdint>

namespace osprey::data {

/// Pixels of a picture.
struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

}  // namespace osprey::data
