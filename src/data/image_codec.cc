#include "osprey/data/image_codec.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <turbojpeg.h>

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>

#include "exif.h"
#include "jpeg_head.h"
#include "osprey/base/error.h"

namespace osprey::data {
namespace {

void check_size(int64_t height, int64_t width) {
  if (height <= 0 || width <= 0)
    throw DataError(fmt::format("damaged picture: its head says {} x {} pixels", width, height));
  if (height > kMaxPixels / width)
    throw DataError(fmt::format("a picture of {} x {} pixels is larger than the limit of {} pixels; make it smaller",
                                width, height, kMaxPixels));
}

ImageSize png_size(std::string_view encoded) {
  return {static_cast<int64_t>(number_at(encoded, 20, 4, true)), static_cast<int64_t>(number_at(encoded, 16, 4, true))};
}

tjhandle decompressor() {
  struct Handle {
    tjhandle handle = tjInitDecompress();
    ~Handle() { tjDestroy(handle); }
  };
  thread_local Handle handle;
  if (handle.handle == nullptr) throw std::bad_alloc();
  return handle.handle;
}

// What libjpeg warns of without any harm to the picture. It also only warns where data end early, and goes on in grey:
// that and everything else is an error here. (A fatal error after a warning has the code of a warning, too.)
bool harmless(const std::string& message) {
  for (const char* words :
       {"extraneous bytes before marker", "Adobe color transform", "JFIF revision", "SOS parameters"})
    if (message.find(words) != std::string::npos) return true;
  return false;
}

// Nothing where the picture is sound, else what libjpeg says. Pixels are TensorFlow's, which takes the fast inverse
// transform where nobody asks for the accurate one.
std::string try_decode_jpeg(std::string_view encoded, TJPF format, const at::Tensor& pixels) {
  tjhandle handle = decompressor();
  const auto width = static_cast<int>(pixels.size(1)), height = static_cast<int>(pixels.size(0));
  const int status = tjDecompress2(handle, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size(),
                                   pixels.data_ptr<uint8_t>(), width, static_cast<int>(pixels.stride(0)), height,
                                   format, TJFLAG_FASTDCT);
  if (status == 0) return "";
  const std::string message = tjGetErrorStr2(handle);
  return tjGetErrorCode(handle) == TJERR_WARNING && harmless(message) ? "" : message;
}

at::Tensor decode_jpeg(std::string_view encoded, TJPF format, int channels, const ImageSize& size) {
  at::Tensor pixels = at::empty({size.height, size.width, channels}, at::kByte);
  std::string error = try_decode_jpeg(encoded, format, pixels);
  // Some cameras forget the end marker after the last pixel.
  if (error.find("remature end of JPEG file") != std::string::npos &&
      try_decode_jpeg(std::string(encoded) + "\xff\xd9", format, pixels).empty())
    return pixels;
  if (!error.empty()) throw DataError("damaged JPEG: " + error);
  return pixels;
}

// Ink to light: (255 - ink) * (255 - black) / 255, cut off as TensorFlow does; Adobe stores 255 - ink.
at::Tensor cmyk_to_rgb(const at::Tensor& cmyk, bool inverted) {
  at::Tensor light = inverted ? cmyk.to(at::kInt) : 255 - cmyk.to(at::kInt);
  return at::floor_divide(light.slice(2, 0, 3) * light.slice(2, 3, 4), 255).to(at::kByte);
}

/// The smallest size that libjpeg decodes to by shorter transforms, of those that are no smaller than `least`.
ImageSize reduced(const JpegHead& head, const ImageSize& least) {
  for (const int64_t divisor : {8, 4, 2}) {
    const ImageSize size{(head.height + divisor - 1) / divisor, (head.width + divisor - 1) / divisor};
    if (size.height >= least.height && size.width >= least.width) return size;
  }
  return {head.height, head.width};
}

at::Tensor decode_jpeg_rgb(std::string_view encoded, const std::optional<ImageSize>& least) {
  const JpegHead head = jpeg_head(encoded);
  check_size(head.height, head.width);
  const ImageSize size = least ? reduced(head, *least) : ImageSize{head.height, head.width};
  if (head.components == 4) return cmyk_to_rgb(decode_jpeg(encoded, TJPF_CMYK, 4, size), head.adobe);
  return decode_jpeg(encoded, TJPF_RGB, 3, size);
}

cv::Mat decode_opencv(std::string_view encoded, int flags) {
  if (is_png(encoded)) {
    const ImageSize size = png_size(encoded);
    check_size(size.height, size.width);
  }
  // OpenCV turns a TIFF whatever its flags say.
  const std::string as_stored = tiff_with_orientation_1(encoded);
  if (!as_stored.empty()) encoded = as_stored;
  const cv::Mat bytes(1, static_cast<int>(encoded.size()), CV_8U, const_cast<char*>(encoded.data()));
  cv::Mat picture;
  std::string reason;
  try {
    picture = cv::imdecode(bytes, flags | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& error) {
    reason = ": " + error.err;
  }
  if (picture.empty()) {
    const char* const fault = is_png(encoded) ? "damaged PNG"
                              : encoded.starts_with("GIF8")
                                  ? "GIF, damaged or not read by this OpenCV; make it a PNG or JPEG"
                                  : "damaged picture, or of a format that is not known";
    throw DataError(fault + reason);
  }
  check_size(picture.rows, picture.cols);
  if (picture.depth() != CV_8U) throw DataError("picture with values that are not 8 bits");
  return picture;
}

void check_bytes(std::string_view encoded) {
  if (encoded.empty()) throw DataError("the picture has 0 bytes");
  if (encoded.size() > size_t{1} << 31) throw DataError("the encoded picture is larger than 2 GiB");
}

}  // namespace

ImageInfo image_info(std::string_view encoded) {
  check_bytes(encoded);
  ImageInfo info;
  if (is_jpeg(encoded)) {
    const JpegHead head = jpeg_head(encoded);
    info = {"jpeg", head.height, head.width, head.orientation};
  } else if (is_png(encoded)) {
    const ImageSize size = png_size(encoded);
    info = {"png", size.height, size.width, exif_orientation(encoded)};
  } else {
    const cv::Mat picture = decode_opencv(encoded, cv::IMREAD_COLOR);
    info = {"other", picture.rows, picture.cols, exif_orientation(encoded)};
  }
  check_size(info.height, info.width);
  return info;
}

at::Tensor decode_image(std::string_view encoded, const std::optional<ImageSize>& least) {
  check_bytes(encoded);
  if (is_jpeg(encoded)) return decode_jpeg_rgb(encoded, least);
  const cv::Mat picture = decode_opencv(encoded, cv::IMREAD_COLOR);
  at::Tensor image = at::empty({picture.rows, picture.cols, 3}, at::kByte);
  cv::Mat rgb(picture.rows, picture.cols, CV_8UC3, image.data_ptr<uint8_t>());
  cv::cvtColor(picture, rgb, cv::COLOR_BGR2RGB);
  return image;
}

at::Tensor decode_grey(std::string_view encoded) {
  check_bytes(encoded);
  if (is_jpeg(encoded)) {
    const JpegHead head = jpeg_head(encoded);
    check_size(head.height, head.width);
    return decode_jpeg(encoded, TJPF_GRAY, 1, {head.height, head.width}).squeeze(2);
  }
  const cv::Mat picture = decode_opencv(encoded, cv::IMREAD_GRAYSCALE);
  at::Tensor image = at::empty({picture.rows, picture.cols}, at::kByte);
  picture.copyTo(cv::Mat(picture.rows, picture.cols, CV_8U, image.data_ptr<uint8_t>()));
  return image;
}

at::Tensor upright(const at::Tensor& image, int orientation) {
  // EXIF: 2 mirrored, 3 half turn, 4 upside down mirrored, 5 transposed, 6 quarter turn right, 7 transverse, 8 quarter
  // turn left.
  switch (orientation) {
    case 2:
      return image.flip({1}).contiguous();
    case 3:
      return image.flip({0, 1}).contiguous();
    case 4:
      return image.flip({0}).contiguous();
    case 5:
      return image.transpose(0, 1).contiguous();
    case 6:
      return image.transpose(0, 1).flip({1}).contiguous();
    case 7:
      return image.transpose(0, 1).flip({0, 1}).contiguous();
    case 8:
      return image.transpose(0, 1).flip({0}).contiguous();
    default:
      return image;
  }
}

std::string encode_jpeg(const at::Tensor& image, int quality, Chroma chroma) {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3 && image.scalar_type() == at::kByte,
              "encode_jpeg wants [H, W, 3] uint8, got ", image.sizes(), " ", image.scalar_type());
  TORCH_CHECK(quality >= 1 && quality <= 100, "JPEG quality ", quality, " is not in 1..100");
  const at::Tensor pixels = image.contiguous().cpu();
  std::unique_ptr<void, int (*)(void*)> handle(tjInitCompress(), &tjDestroy);
  if (!handle) throw std::bad_alloc();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool full = chroma == Chroma::kByQuality && quality > 95;
  const int status = tjCompress2(handle.get(), pixels.data_ptr<uint8_t>(), static_cast<int>(pixels.size(1)), 0,
                                 static_cast<int>(pixels.size(0)), TJPF_RGB, &bytes, &size,
                                 full ? TJSAMP_444 : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  std::unique_ptr<unsigned char, void (*)(unsigned char*)> owned(bytes, &tjFree);
  if (status != 0) throw DataError(std::string("cannot encode a JPEG: ") + tjGetErrorStr2(handle.get()));
  return {reinterpret_cast<const char*>(bytes), size};
}

std::string encode_png(const at::Tensor& image) {
  TORCH_CHECK(((image.dim() == 3 && image.size(2) == 3) || image.dim() == 2) && image.scalar_type() == at::kByte,
              "encode_png wants [H, W, 3] or [H, W] uint8, got ", image.sizes(), " ", image.scalar_type());
  const at::Tensor pixels = image.contiguous().cpu();
  const bool grey = image.dim() == 2;
  cv::Mat picture(static_cast<int>(pixels.size(0)), static_cast<int>(pixels.size(1)), grey ? CV_8U : CV_8UC3,
                  pixels.data_ptr<uint8_t>());
  cv::Mat bgr;
  if (!grey) cv::cvtColor(picture, bgr, cv::COLOR_RGB2BGR);
  std::vector<unsigned char> bytes;
  cv::imencode(".png", grey ? picture : bgr, bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace osprey::data
