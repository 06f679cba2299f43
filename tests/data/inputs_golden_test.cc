#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "augmentation_support.h"
#include "osprey/data/collate.h"

namespace osprey::testing {
namespace {
using nlohmann::json;

float number(const json& value) { return value.is_string() ? std::nanf("") : value.get<float>(); }

// The original normalises before it resizes; both are affine, so normalising afterwards gives the same content.
at::Tensor normalised(const at::Tensor& images, const at::Tensor& true_shapes) {
  at::Tensor out = at::zeros_like(images);
  const int64_t height = true_shapes[0][0].item<int64_t>(), width = true_shapes[0][1].item<int64_t>();
  out.narrow(2, 0, height).narrow(3, 0, width).copy_(images.narrow(2, 0, height).narrow(3, 0, width) * (2.0 / 255) - 1);
  return out;
}

TEST(Inputs, AreTransformedAndPaddedAsInTheOriginal) {
  for (const auto& file : golden_files("inputs.json")) {
    const json all = read_json(file);
    for (const json& one : all["cases"]) {
      SCOPED_TRACE(one["name"].get<std::string>());
      Example example;
      example.image = tensor(one["image_uint8"], at::kByte);
      for (const auto& box : one["boxes"])
        example.boxes.push_back({number(box[0]), number(box[1]), number(box[2]), number(box[3])});
      for (const auto& label : one["classes_one_based"]) example.classes.push_back(label.get<int64_t>() - 1);
      example.weights = one["weights"].get<std::vector<float>>();
      data::drop_unusable_objects(example);

      const auto text = config::parse<proto::ImageResizer>(one["resizer"].get<std::string>(), "test");
      const std::shared_ptr<const data::ImageResizer> resizer = data::build_image_resizer(text.node());
      const data::ImageSize canvas = *resizer->static_size();
      const json &transformed = one["transformed"], &padded = one["padded_to_6"];
      data::BatchShape shape;
      shape.image = canvas;
      shape.max_boxes = static_cast<int64_t>(padded["groundtruth_boxes"].size());
      shape.float_images = true;
      shape.num_classes = static_cast<int64_t>(padded["groundtruth_classes"][0].size());
      shape.multi_label = true;
      shape.confidences = true;
      data::Collation collation(shape, resizer);
      collation.put(0, example, 0);
      const Batch batch = collation.finish();

      // Values of -1..1 after two lerps in float32.
      expect_close(normalised(batch.images, batch.true_shapes)[0].permute({1, 2, 0}), tensor(transformed["image"]),
                   1e-5, 2e-6, "image");
      // The model expresses boxes in the padded canvas, not the loader.
      const at::Tensor content = batch.true_shapes[0].to(at::kFloat);
      const at::Tensor to_canvas =
          content / at::tensor({static_cast<float>(canvas.height), static_cast<float>(canvas.width)});
      expect_close(batch.boxes[0] * to_canvas.repeat({2}), tensor(padded["groundtruth_boxes"]), 1e-5, 1e-6, "boxes");
      expect_close(batch.classes[0], tensor(padded["groundtruth_classes"]), 0, 0, "classes");
      expect_close(batch.confidences[0], tensor(padded["groundtruth_confidences"]), 0, 0, "confidences");
      EXPECT_EQ(batch.valid.sum().item<int64_t>(), padded["num_groundtruth_boxes"].get<int64_t>());
      EXPECT_EQ(batch.true_shapes[0][0].item<int64_t>(), padded["true_image_shape"][0].get<int64_t>());
      EXPECT_EQ(batch.true_shapes[0][1].item<int64_t>(), padded["true_image_shape"][1].get<int64_t>());

      // The original keeps the weight of a dropped box, which then stands at a padded row or a wrong box; ours goes
      // with it.
      const int64_t count = padded["num_groundtruth_boxes"].get<int64_t>();
      at::Tensor weights = tensor(padded["groundtruth_weights"]);
      weights.slice(0, count).zero_();
      expect_close(batch.weights[0], weights, 0, 0, "weights");
    }
  }
}

}  // namespace
}  // namespace osprey::testing
