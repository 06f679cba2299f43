#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "osprey/data/image_size.h"

namespace osprey::data {

/// What the head of an encoded picture says.
struct ImageInfo {
  std::string format;             ///< "jpeg", "png", or "other"
  int64_t height = 0, width = 0;  ///< pixels as stored, before any orientation
  int orientation = 1;            ///< EXIF orientation 1..8 of a JPEG, PNG, WebP or TIFF; 1 where there is none
};

/// The largest number of pixels that is decoded (2^28); a head that promises more is taken for damage.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// Reads the head of a picture without decoding it (formats other than JPEG and PNG are decoded for it).
/// throws DataError: no bytes, no known format, absurd size
ImageInfo image_info(std::string_view encoded);

/// Decodes a picture (JPEG, PNG, BMP, TIFF, WebP and what else OpenCV reads) to what it stores, EXIF orientation not
/// applied.
///
/// Always three channels of 8 bits: grey is repeated, palettes are looked up, CMYK is converted (also Adobe's inverted
/// form), of 16 bits the upper 8 are kept, and alpha is dropped, as the original does: what lies under transparent
/// pixels is part of the picture.
///
/// least    a JPEG is decoded to a half, a quarter or an eighth of its sides (rounded up) where that is no smaller than
///          this in either direction: faster, by shorter transforms. Unset: whole, as other formats are always
/// returns  [H, W, 3] uint8 RGB, contiguous
/// throws   DataError without a file name: no bytes, unknown format, damaged or cut short (a JPEG that ends early is an
///          error even if a part could be shown), absurd size
at::Tensor decode_image(std::string_view encoded, const std::optional<ImageSize>& least = std::nullopt);

/// Decodes a one-channel picture, e.g. an instance mask: [H, W] uint8. Throws as `decode_image`.
at::Tensor decode_grey(std::string_view encoded);

/// Turns a stored picture upright.
///
/// image        [H, W, ...]
/// orientation  1..8 as in EXIF (1: nothing to do)
at::Tensor upright(const at::Tensor& image, int orientation);

/// Resolution of the two colour channels of a JPEG: half up to quality 95 and in full above, or half at any quality.
enum class Chroma { kByQuality, kHalf };
/// Encodes [H, W, 3] uint8 RGB; quality 1..100.
std::string encode_jpeg(const at::Tensor& image, int quality = 95, Chroma chroma = Chroma::kByQuality);
/// Encodes [H, W, 3] uint8 RGB or [H, W] uint8 grey, without loss.
std::string encode_png(const at::Tensor& image);

}  // namespace osprey::data
