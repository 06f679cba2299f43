#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/data/image_resizer.h"
#include "osprey/data/resize.h"
#include "support/golden.h"

namespace osprey::testing {
namespace {
using nlohmann::json;

std::unique_ptr<data::ImageResizer> resizer(const std::string& text) {
  const auto message = config::parse<proto::ImageResizer>(text, "test");
  return data::build_image_resizer(message.node());
}

TEST(ImageResizer, AgreesWithTheOriginal) {
  for (const auto& file : golden_files("resizers.json")) {
    const json all = read_json(file);
    for (const json& one : all["resizers"]) {
      const std::string name = one["name"];
      const auto subject = resizer(one["config"]);
      const at::Tensor image = tensor(one["in"]);
      const data::ImageResizer::Resized out = subject->resize(image);
      // Two lerps in float32 on values up to 255, in another order than the original's.
      expect_close(out.image, tensor(one["out"]), 1e-5, 1e-4, name);
      EXPECT_EQ((std::vector<int64_t>{out.content.height, out.content.width, out.image.size(2)}),
                one["true_image_shape"].get<std::vector<int64_t>>())
          << name;
      if (subject->static_size()) {
        EXPECT_EQ(subject->static_size()->height, out.image.size(0)) << name;
        EXPECT_EQ(subject->static_size()->width, out.image.size(1)) << name;
      }
    }
  }
}

TEST(ImageResizer, KeepsTheAspectRatioToTheOriginalsPixel) {
  for (const auto& file : golden_files("resizers.json")) {
    for (const json& row : read_json(file).value("keep_aspect_output_sizes", json::array())) {
      const auto subject = resizer("keep_aspect_ratio_resizer { min_dimension: " + row[0].dump() +
                                   " max_dimension: " + row[1].dump() + " }");
      const data::ImageSize size = subject->content_size({row[2], row[3]});
      EXPECT_EQ(size, (data::ImageSize{row[4], row[5]})) << row.dump();
    }
  }
}

TEST(ImageResizer, ResizesMasksByNearestNeighbour) {
  for (const auto& file : golden_files("resizers.json")) {
    const json all = read_json(file);
    if (!all.contains("masks")) continue;
    const std::string text = all["masks"]["config"];
    const auto subject = resizer(text.substr(0, text.find('}') + 1));
    expect_close(subject->resize_masks(tensor(all["masks"]["in_masks"])), tensor(all["masks"]["out_masks"]), 0, 0,
                 "masks");
  }
}

// Every variant of every case of the original's kernels.
TEST(Resize, AgreesWithTheOriginalsKernels) {
  using data::ResizeMethod;
  const std::map<std::string, data::ResizeOptions> variants = {
      {"v1_bilinear_align_corners_False", {}},
      {"v1_bilinear_align_corners_True", {ResizeMethod::kBilinear, true, false}},
      {"v1_bilinear_half_pixel", {ResizeMethod::kBilinear, false, true}},
      {"v2_resize_bilinear", {ResizeMethod::kBilinear, false, true}},
      {"v1_nearest_align_corners_False", {ResizeMethod::kNearest, false, false}},
      {"v1_nearest_align_corners_True", {ResizeMethod::kNearest, true, false}},
      {"v2_resize_nearest", {ResizeMethod::kNearest, false, true}},
      {"v1_bicubic", {ResizeMethod::kBicubic, false, false}},
      {"v1_area", {ResizeMethod::kArea, false, false}}};
  for (const auto& file : golden_files("tf_primitives.json")) {
    for (const json& one : read_json(file).value("resize", json::array())) {
      const at::Tensor image = tensor(one["x"]);
      for (const auto& [name, expected] : one.items()) {
        if (name == "x" || name == "size") continue;
        const auto variant = variants.find(name);
        if (variant == variants.end()) {
          ADD_FAILURE() << "nobody consumed the variant " << name;
          continue;
        }
        const at::Tensor out = data::resize(image[0], one["size"][0], one["size"][1], variant->second);
        expect_close(out, tensor(expected)[0], 1e-5, 1e-5, name + " to " + one["size"].dump());
      }
    }
  }
}

// What tf.compat.v1.image.resize_bicubic and resize_area of TensorFlow 2.15 make of these pixels.
TEST(Resize, AlignsCornersByEveryMethod) {
  using data::ResizeMethod;
  const at::Tensor image = at::tensor({10.0f, 200.0f, 30.0f, 90.0f, 40.0f, 250.0f}).view({2, 3, 1});
  const auto resized = [&](ResizeMethod method, const at::Tensor& from, int64_t height) {
    return data::resize(from, height, 5, {method, /*align_corners=*/true, false}).view({height, 5});
  };
  expect_close(
      resized(ResizeMethod::kBicubic, image, 4),
      at::tensor({10.0f,   120.9375f, 200.0f,   132.8125f, 30.0f,     35.157f, 97.1563f, 149.6861f, 135.171f,  99.1817f,
                  64.843f, 69.0937f,  90.3139f, 137.954f,  180.8183f, 90.0f,   45.3125f, 40.0f,     140.3125f, 250.0f})
          .view({4, 5}),
      1e-4, 0, "bicubic");
  expect_close(resized(ResizeMethod::kArea, image, 4),
               at::tensor({10.0f, 10.0f, 200.0f, 200.0f, 30.0f, 10.0f, 10.0f, 200.0f, 200.0f, 30.0f,
                           10.0f, 10.0f, 200.0f, 200.0f, 30.0f, 90.0f, 90.0f, 40.0f,  40.0f,  250.0f})
                   .view({4, 5}),
               1e-4, 0, "area");
  expect_close(resized(ResizeMethod::kArea, image.slice(0, 0, 1), 2),
               at::tensor({10.0f, 10.0f, 200.0f, 200.0f, 30.0f}).expand({2, 5}), 1e-4, 0, "area of one row");
}

}  // namespace
}  // namespace osprey::testing
