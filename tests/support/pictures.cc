#include "support/pictures.h"

#include <ATen/ATen.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <algorithm>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <vector>

namespace osprey::testing {
namespace {

std::string compress_jpeg(const at::Tensor& pixels, TJPF format, TJSAMP sampling) {
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status = tjCompress2(handle, pixels.data_ptr<uint8_t>(), static_cast<int>(pixels.size(1)), 0,
                                 static_cast<int>(pixels.size(0)), format, &bytes, &size, sampling, 95, 0);
  const std::string result(reinterpret_cast<char*>(bytes), status == 0 ? size : 0);
  tjFree(bytes);
  tjDestroy(handle);
  if (status != 0) throw std::runtime_error("tjCompress2");
  return result;
}

std::string encoded(const char* ending, const at::Tensor& image, const std::vector<int>& options) {
  const at::Tensor bgr = image.flip({2}).contiguous();
  std::vector<unsigned char> bytes;
  cv::imencode(ending,
               cv::Mat(static_cast<int>(bgr.size(0)), static_cast<int>(bgr.size(1)), CV_8UC3, bgr.data_ptr<uint8_t>()),
               bytes, options);
  return {bytes.begin(), bytes.end()};
}

std::string png(const cv::Mat& picture) {
  std::vector<unsigned char> bytes;
  cv::imencode(".png", picture, bytes);
  return {bytes.begin(), bytes.end()};
}

std::string number(uint64_t value, size_t bytes, bool big) {
  std::string result;
  for (size_t i = 0; i < bytes; ++i) result.push_back(static_cast<char>(value >> 8 * (big ? bytes - 1 - i : i)));
  return result;
}

std::string big32(uint32_t value) { return number(value, 4, true); }

// Big-endian TIFF block with one entry: tag 0x0112, type SHORT, count 1, value.
std::string exif_block(int orientation) {
  std::string tiff("MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  tiff.push_back(static_cast<char>(orientation));
  tiff.append(6, '\0');
  return tiff;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong sum = crc32(0, reinterpret_cast<const unsigned char*>(body.data()), static_cast<uInt>(body.size()));
  return big32(static_cast<uint32_t>(data.size())) + body + big32(static_cast<uint32_t>(sum));
}

}  // namespace

at::Tensor gradient_image(int64_t height, int64_t width) {
  at::Tensor image = at::empty({height, width, 3}, at::kByte);
  auto* pixel = image.data_ptr<uint8_t>();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      *pixel++ = static_cast<uint8_t>(255 * x / std::max<int64_t>(width - 1, 1));
      *pixel++ = static_cast<uint8_t>(255 * y / std::max<int64_t>(height - 1, 1));
      *pixel++ = 60;
    }
  return image;
}

std::string grey_jpeg(int64_t height, int64_t width) {
  return compress_jpeg(gradient_image(height, width).select(2, 0).contiguous(), TJPF_GRAY, TJSAMP_GRAY);
}

std::string cmyk_jpeg(int64_t height, int64_t width, int cyan, int magenta, int yellow, int black) {
  const at::Tensor stored = (255 - at::tensor({cyan, magenta, yellow, black}, at::kInt)).to(at::kByte);
  return compress_jpeg(stored.expand({height, width, 4}).contiguous(), TJPF_CMYK, TJSAMP_444);
}

std::string without_adobe_marker(std::string jpeg) {
  const size_t marker = jpeg.find("Adobe");
  if (marker == std::string::npos) throw std::runtime_error("no Adobe marker");
  return jpeg.replace(marker, 5, "OTHER");
}

std::string grey_png(int64_t height, int64_t width, int value) {
  return png(cv::Mat(static_cast<int>(height), static_cast<int>(width), CV_8U, cv::Scalar(value)));
}

std::string png16(int64_t height, int64_t width, int red, int green, int blue) {
  return png(cv::Mat(static_cast<int>(height), static_cast<int>(width), CV_16UC3, cv::Scalar(blue, green, red)));
}

std::string rgba_png(int64_t height, int64_t width, int red, int green, int blue, int alpha) {
  return png(cv::Mat(static_cast<int>(height), static_cast<int>(width), CV_8UC4, cv::Scalar(blue, green, red, alpha)));
}

std::string palette_png(int64_t height, int64_t width, int red, int green, int blue) {
  std::string rows;
  for (int64_t y = 0; y < height; ++y) rows += '\0' + std::string(static_cast<size_t>(width), '\1');
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<unsigned char*>(packed.data()), &size, reinterpret_cast<const unsigned char*>(rows.data()),
           rows.size());
  packed.resize(size);
  const std::string head = big32(static_cast<uint32_t>(width)) + big32(static_cast<uint32_t>(height)) +
                           std::string("\x08\x03\0\0\0", 5);  // 8 bits, palette
  const std::string palette{0, 0, 0, static_cast<char>(red), static_cast<char>(green), static_cast<char>(blue)};
  return std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", head) + chunk("PLTE", palette) + chunk("IDAT", packed) +
         chunk("IEND", "");
}

std::string with_orientation(const std::string& jpeg, int orientation) {
  const std::string body = std::string("Exif\0\0", 6) + exif_block(orientation);
  const size_t length = body.size() + 2;
  const std::string segment =
      std::string("\xff\xe1") + static_cast<char>(length >> 8) + static_cast<char>(length) + body;
  return jpeg.substr(0, 2) + segment + jpeg.substr(2);
}

std::string webp_with_orientation(const at::Tensor& image, int orientation, const std::string& before) {
  const std::string plain = encoded(".webp", image, {cv::IMWRITE_WEBP_QUALITY, 101});  // above 100: without loss
  const auto riff_chunk = [](const std::string& type, const std::string& data) {
    return type + number(data.size(), 4, false) + data + std::string(data.size() % 2, '\0');
  };
  const auto side = [&](int64_t dimension) {
    return number(static_cast<uint64_t>(image.size(dimension)) - 1, 3, false);
  };
  constexpr uint64_t kHasExif = 8;
  const std::string head = riff_chunk("VP8X", number(kHasExif, 4, false) + side(1) + side(0)),
                    body = "WEBP" + head + plain.substr(12) + riff_chunk("EXIF", before + exif_block(orientation));
  return riff_chunk("RIFF", body);
}

std::string tiff_with_orientation(const at::Tensor& image, int orientation, TiffKind kind) {
  const size_t word = kind.wide ? 8 : 4;  // of offsets and counts
  const auto bytes = [&](uint64_t value, size_t size) { return number(value, size, kind.big); };
  std::string result = (kind.big ? "MM" : "II") + (kind.wide ? bytes(43, 2) + bytes(8, 2) + bytes(0, 2) : bytes(42, 2));
  const uint64_t bits_at = result.size() + word, pixels_at = bits_at + 6;
  const std::string bits = bytes(8, 2) + bytes(8, 2) + bytes(8, 2);
  std::string pixels(reinterpret_cast<const char*>(image.data_ptr<uint8_t>()), static_cast<size_t>(image.numel()));
  pixels.append(pixels.size() % 2, '\0');
  result += bytes(pixels_at + pixels.size(), word) + bits + pixels;
  constexpr uint64_t kShort = 3, kLong = 4;
  const auto entry = [&](uint64_t tag, uint64_t type, uint64_t count, std::string value) {
    value.resize(word);
    return bytes(tag, 2) + bytes(type, 2) + bytes(count, word) + value;
  };
  const auto shorts = [&](uint64_t tag, uint64_t value) { return entry(tag, kShort, 1, bytes(value, 2)); };
  const auto longs = [&](uint64_t tag, uint64_t value) { return entry(tag, kLong, 1, bytes(value, 4)); };
  const auto height = static_cast<uint64_t>(image.size(0)), width = static_cast<uint64_t>(image.size(1));
  const std::string entries = longs(256, width) + longs(257, height) +
                              entry(258, kShort, 3, kind.wide ? bits : bytes(bits_at, 4)) +
                              shorts(259, 1) +  // not packed
                              shorts(262, 2) +  // RGB
                              longs(273, pixels_at) + shorts(274, static_cast<uint64_t>(orientation)) + shorts(277, 3) +
                              longs(278, height) + longs(279, height * width * 3);
  return result + bytes(10, kind.wide ? 8 : 2) + entries + bytes(0, word);
}

}  // namespace osprey::testing
