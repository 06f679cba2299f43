#include "osprey/data/image_codec.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/pictures.h"

namespace osprey::data {
namespace {
using namespace ::osprey::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Every pixel of [H, W, 3] within `tolerance` of the colour.
void expect_colour(const at::Tensor& image, int red, int green, int blue, int tolerance) {
  const at::Tensor difference = (image.to(at::kInt) - at::tensor({red, green, blue}, at::kInt)).abs();
  EXPECT_LE(difference.max().item<int>(), tolerance) << image[0][0];
}

TEST(ImageCodec, PngRoundTripIsExactAndInRgbOrder) {
  const at::Tensor image = gradient_image(7, 11);
  EXPECT_TRUE(decode_image(encode_png(image)).equal(image));
  const ImageInfo info = image_info(encode_png(image));
  EXPECT_EQ(info.format, "png");
  EXPECT_EQ(info.height, 7);
  EXPECT_EQ(info.width, 11);
}

TEST(ImageCodec, JpegRoundTripIsCloseAndInRgbOrder) {
  const at::Tensor image = gradient_image(64, 96);
  const at::Tensor decoded = decode_image(encode_jpeg(image, 95));
  ASSERT_EQ(decoded.sizes(), image.sizes());
  EXPECT_LT((decoded.to(at::kFloat) - image.to(at::kFloat)).abs().mean().item<float>(), 2);
  EXPECT_EQ(image_info(encode_jpeg(image)).format, "jpeg");
  EXPECT_GT(encode_jpeg(image, 100).size(), encode_jpeg(image, 50).size());
}

// A JPEG of smooth colours is, at a part of its size, about the averages of its blocks.
TEST(ImageCodec, AJpegIsDecodedToThePartOfItsSizeThatIsStillLargeEnough) {
  const at::Tensor image = gradient_image(160, 241);
  const std::string jpeg = encode_jpeg(image, 95);
  const auto size_for = [&](int64_t height, int64_t width) {
    const at::Tensor decoded = decode_image(jpeg, ImageSize{height, width});
    return std::vector<int64_t>(decoded.sizes().begin(), decoded.sizes().end());
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(size_for(20, 31), (Sizes{20, 31, 3})) << "an eighth, rounded up";
  EXPECT_EQ(size_for(21, 31), (Sizes{40, 61, 3}));
  EXPECT_EQ(size_for(20, 62), (Sizes{80, 121, 3}));
  EXPECT_EQ(size_for(81, 10), (Sizes{160, 241, 3})) << "whole: half of it is too small in one direction";
  EXPECT_EQ(size_for(500, 500), (Sizes{160, 241, 3}));
  EXPECT_TRUE(decode_image(jpeg, ImageSize{160, 241}).equal(decode_image(jpeg)));
  const auto half_of = [](const at::Tensor& whole) {
    return at::avg_pool2d(whole.permute({2, 0, 1}).to(at::kFloat), {2, 2}).permute({1, 2, 0});
  };
  const at::Tensor half = decode_image(jpeg, ImageSize{80, 120}).slice(1, 0, 120);
  EXPECT_LT((half.to(at::kFloat) - half_of(decode_image(jpeg))).abs().mean().item<float>(), 2);
  const at::Tensor grey = decode_image(grey_jpeg(32, 48), ImageSize{4, 6});
  EXPECT_EQ(grey.size(0), 4);
  expect_colour(decode_image(cmyk_jpeg(16, 16, 128, 0, 0, 0), ImageSize{2, 2}), 127, 255, 255, 3);
  EXPECT_TRUE(decode_image(encode_png(image), ImageSize{1, 1}).equal(image)) << "only JPEGs";
  EXPECT_THROW(decode_image(std::string_view(jpeg).substr(0, jpeg.size() / 2), ImageSize{20, 31}), DataError);
}

// Sums of the pixels, and of their squares, that tf.io.decode_jpeg of TensorFlow 2.15 gives.
TEST(ImageCodec, JpegPixelsAreTensorFlows) {
  const auto data = test_data();
  if (!data) GTEST_SKIP() << kNoTestData;
  const auto expect_sums = [&](const char* name, int64_t sum, int64_t squares) {
    const at::Tensor pixels = decode_image(read_file(*data / "data/bccd/JPEGImages" / name)).to(at::kLong);
    EXPECT_EQ(pixels.sum().item<int64_t>(), sum) << name;
    EXPECT_EQ(pixels.square().sum().item<int64_t>(), squares) << name;
  };
  expect_sums("BloodImage_00000.jpg", 166659252, 30524101320);
  expect_sums("BloodImage_00001.jpg", 167544436, 30842025470);
}

TEST(ImageCodec, GreyPicturesGetThreeEqualChannels) {
  expect_colour(decode_image(grey_png(5, 6, 77)), 77, 77, 77, 0);
  const at::Tensor jpeg = decode_image(grey_jpeg(32, 48));
  ASSERT_EQ(jpeg.sizes(), (std::vector<int64_t>{32, 48, 3}));
  EXPECT_TRUE(jpeg.select(2, 0).equal(jpeg.select(2, 2)));
  EXPECT_EQ(decode_grey(grey_png(5, 6, 77)).sizes(), (std::vector<int64_t>{5, 6}));
}

TEST(ImageCodec, CmykIsConvertedWithAndWithoutAdobesInversion) {
  // Half cyan ink: red 255 - 128 = 127; no black.
  expect_colour(decode_image(cmyk_jpeg(16, 16, 128, 0, 0, 0)), 127, 255, 255, 3);
  // All colours behind half black: (255 - 55) * (255 - 105) / 255 = 117.6.
  expect_colour(decode_image(cmyk_jpeg(16, 16, 55, 55, 55, 105)), 118, 118, 118, 3);
  // Grey ink 55 is stored as Y 55, Cb 128, Cr 128, full black as K 0: plain inks that leave 200, 127 and 127 of the
  // light.
  expect_colour(decode_image(without_adobe_marker(cmyk_jpeg(16, 16, 55, 55, 55, 255))), 200, 127, 127, 3);
}

TEST(ImageCodec, Of16BitsTheUpperEightAreKept) {
  expect_colour(decode_image(png16(4, 4, 0x80ff, 0x4000, 0x01ff)), 0x80, 0x40, 1, 0);
}

TEST(ImageCodec, AlphaIsDroppedAndPalettesAreLookedUp) {
  expect_colour(decode_image(rgba_png(4, 4, 10, 20, 30, 0)), 10, 20, 30, 0);
  expect_colour(decode_image(palette_png(4, 5, 10, 20, 30)), 10, 20, 30, 0);
}

TEST(ImageCodec, APictureThatEndsEarlyIsAnErrorWhereverItEnds) {
  const at::Tensor image = gradient_image(40, 60);
  for (const std::string& whole : {encode_jpeg(image), encode_png(image), grey_jpeg(40, 60)}) {
    for (size_t size = 0; size + 12 < whole.size(); size += 1 + whole.size() / 40)
      EXPECT_THROW(decode_image(std::string_view(whole).substr(0, size)), DataError) << size << " of " << whole.size();
  }
  const std::string jpeg = encode_jpeg(image);
  EXPECT_THAT([&] { decode_image(jpeg.substr(0, jpeg.size() * 2 / 3)); },
              ThrowsMessage<DataError>(HasSubstr("damaged JPEG")));
}

TEST(ImageCodec, AJpegThatOnlyLacksItsEndMarkerIsWhole) {
  const std::string jpeg = encode_jpeg(gradient_image(40, 60));
  EXPECT_TRUE(decode_image(jpeg.substr(0, jpeg.size() - 2)).equal(decode_image(jpeg)));
}

TEST(ImageCodec, AChangedByteInAPngIsAnError) {
  std::string png = encode_png(gradient_image(40, 60));
  png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 1);
  EXPECT_THROW(decode_image(png), DataError);
}

TEST(ImageCodec, EmptyUnknownAndAbsurdPicturesAreErrors) {
  EXPECT_THAT([] { decode_image(""); }, ThrowsMessage<DataError>(HasSubstr("0 bytes")));
  EXPECT_THAT([] { image_info(""); }, ThrowsMessage<DataError>(HasSubstr("0 bytes")));
  EXPECT_THAT([] { decode_image("this is not a picture"); }, ThrowsMessage<DataError>(HasSubstr("not known")));
  EXPECT_THAT([] { decode_image("GIF89a"); }, ThrowsMessage<DataError>(HasSubstr("GIF, damaged or not read")));
  std::string jpeg = encode_jpeg(gradient_image(16, 16));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_THAT([&] { decode_image(jpeg); }, ThrowsMessage<DataError>(HasSubstr("65535 x 65535")));
  jpeg.replace(frame + 5, 4, std::string(4, '\0'));
  EXPECT_THROW(decode_image(jpeg), DataError);
  std::string png = encode_png(gradient_image(16, 16));
  png.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff");
  EXPECT_THAT([&] { decode_image(png); }, ThrowsMessage<DataError>(HasSubstr("2147483647 x 2147483647")));
}

TEST(ImageCodec, OrientationIsReadAndNotApplied) {
  const std::string jpeg = encode_jpeg(gradient_image(16, 32));
  EXPECT_EQ(image_info(jpeg).orientation, 1);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string turned = with_orientation(jpeg, orientation);
    EXPECT_EQ(image_info(turned).orientation, orientation);
    EXPECT_TRUE(decode_image(turned).equal(decode_image(jpeg)));
  }
  EXPECT_EQ(image_info(with_orientation(jpeg, 9)).orientation, 1);
}

TEST(ImageCodec, OrientationOfAWebpIsReadAndNotApplied) {
  const at::Tensor image = gradient_image(15, 31);
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const std::string& before : {std::string(), std::string("Exif\0\0", 6)}) {
      const std::string turned = webp_with_orientation(image, orientation, before);
      const ImageInfo info = image_info(turned);
      EXPECT_EQ(info.orientation, orientation);
      EXPECT_EQ(info.height, 15);
      EXPECT_TRUE(decode_image(turned).equal(image));
      for (size_t size : {4, 11, 13, 19}) EXPECT_THROW(image_info(turned.substr(0, size)), DataError);
    }
  EXPECT_EQ(image_info(webp_with_orientation(image, 9)).orientation, 1);
}

// OpenCV turns a TIFF by itself, whatever it is asked for.
TEST(ImageCodec, OrientationOfATiffIsReadAndNotApplied) {
  const at::Tensor image = gradient_image(15, 31);
  for (const TiffKind kind : {TiffKind{}, TiffKind{.big = true}, TiffKind{.wide = true}, TiffKind{true, true}})
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::string turned = tiff_with_orientation(image, orientation, kind);
      const ImageInfo info = image_info(turned);
      EXPECT_EQ(info.orientation, orientation);
      EXPECT_EQ(info.height, 15);
      EXPECT_TRUE(decode_image(turned).equal(image)) << orientation << kind.big << kind.wide;
      EXPECT_EQ(decode_grey(turned).sizes(), (std::vector<int64_t>{15, 31}));
    }
  EXPECT_EQ(image_info(tiff_with_orientation(image, 9)).orientation, 1);
  // As other whole numbers than the one of two bytes, which libtiff takes, too: 1 BYTE, 4 LONG, 16 LONG8.
  for (const auto& [type, value] : std::map<char, std::string>{{1, std::string("\6\xFF\xFF\xFF\0\0\0\0", 8)},
                                                               {4, std::string("\0\0\0\6\xFF\xFF\xFF\xFF", 8)},
                                                               {16, std::string("\0\0\0\0\0\0\0\6", 8)}}) {
    std::string turned = tiff_with_orientation(image, 6, {.big = true, .wide = true});
    const size_t entry = turned.rfind(std::string("\x01\x12\0\3", 4));
    ASSERT_NE(entry, std::string::npos);
    turned[entry + 3] = type;
    turned.replace(entry + 12, 8, value);
    EXPECT_EQ(image_info(turned).orientation, 6) << int{type};
    EXPECT_TRUE(decode_image(turned).equal(image)) << int{type};
  }
  const std::string tiff = tiff_with_orientation(image, 6);
  for (size_t size = 0; size < tiff.size(); size += 1 + tiff.size() / 100)
    EXPECT_THROW(decode_image(std::string_view(tiff).substr(0, size)), DataError) << size;
}

TEST(ImageCodec, UprightFollowsTheExifTable) {
  // Stored 1 2 / 3 4; what the first row and column mean is EXIF 2.3, table of tag Orientation.
  const at::Tensor stored = at::tensor({1, 2, 3, 4}, at::kByte).reshape({2, 2, 1});
  const std::vector<std::vector<int>> expected{{1, 2, 3, 4}, {2, 1, 4, 3}, {4, 3, 2, 1}, {3, 4, 1, 2},
                                               {1, 3, 2, 4}, {3, 1, 4, 2}, {4, 2, 3, 1}, {2, 4, 1, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation)
    EXPECT_TRUE(upright(stored, orientation)
                    .flatten()
                    .to(at::kInt)
                    .equal(at::tensor(expected[static_cast<size_t>(orientation - 1)], at::kInt)))
        << orientation;
  EXPECT_EQ(upright(gradient_image(2, 3), 6).sizes(), (std::vector<int64_t>{3, 2, 3}));
}

TEST(ImageCodec, WritesOnlyWhatItCan) {
  EXPECT_THROW(encode_jpeg(at::zeros({4, 4, 3})), c10::Error);
  EXPECT_THROW(encode_jpeg(at::zeros({4, 4, 3}, at::kByte), 0), c10::Error);
  EXPECT_THROW(encode_png(at::zeros({4, 4, 2}, at::kByte)), c10::Error);
}

}  // namespace
}  // namespace osprey::data
