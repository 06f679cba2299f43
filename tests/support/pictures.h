#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace osprey::testing {

/// A smooth picture [height, width, 3] uint8, every pixel another colour: red grows to the right, green downwards.
at::Tensor gradient_image(int64_t height, int64_t width);

/// The same as an encoded file of a kind that decoders stumble over.
std::string grey_jpeg(int64_t height, int64_t width);
/// One ink everywhere, 0..255 each, written as Adobe's programs do: inverted, as YCCK, with their marker.
std::string cmyk_jpeg(int64_t height, int64_t width, int cyan, int magenta, int yellow, int black);
/// The same bytes without that marker, which makes readers take Y, Cb, Cr and K for plain cyan, magenta, yellow, black.
std::string without_adobe_marker(std::string jpeg);
std::string grey_png(int64_t height, int64_t width, int value);
std::string png16(int64_t height, int64_t width, int red, int green, int blue);
std::string rgba_png(int64_t height, int64_t width, int red, int green, int blue, int alpha);
std::string palette_png(int64_t height, int64_t width, int red, int green, int blue);

/// A JPEG with an EXIF block that gives this orientation.
std::string with_orientation(const std::string& jpeg, int orientation);
/// Any picture [height, width, 3] uint8, stored without loss, as a WebP with an EXIF chunk that gives it.
/// before  of the block in its chunk: nothing, or what a JPEG has there
std::string webp_with_orientation(const at::Tensor& image, int orientation, const std::string& before = "");

struct TiffKind {
  bool big = false;   ///< the byte order
  bool wide = false;  ///< BigTIFF
};
/// The same as a TIFF that says it among its own tags.
std::string tiff_with_orientation(const at::Tensor& image, int orientation, TiffKind kind = {});

}  // namespace osprey::testing
