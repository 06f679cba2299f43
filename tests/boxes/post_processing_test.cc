#include "osprey/boxes/post_processing.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/post_processing.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using osprey::testing::expect_close;

PostProcessor processor(const std::string& text) {
  const auto parsed = config::parse<proto::PostProcessing>(text, "test");
  return build_post_processor(parsed.node());
}

TEST(PostProcessor, BackgroundIsPartOfTheSoftmaxAndThenDropped) {
  // exp: 1, 3 -> scores 0.25 and 0.75, of which the first is background.
  const at::Tensor logits = at::tensor({0.0f, std::log(3.0f)}).view({1, 1, 2}),
                   boxes = at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).view({1, 1, 4});
  const PostProcessor post = processor("score_converter: SOFTMAX");
  const Detections found = post(boxes, logits, /*has_background=*/true, at::tensor({0.0f, 0.0f, 1.0f, 1.0f}));
  EXPECT_EQ(found.count.item<int64_t>(), 1);
  EXPECT_NEAR(found.scores[0][0].item<float>(), 0.75, 1e-6);
  EXPECT_EQ(found.classes[0][0].item<int64_t>(), 0);
  EXPECT_EQ(found.boxes.sizes(), at::IntArrayRef({1, 100, 4}));
}

TEST(PostProcessor, CurvesCanDifferByClass) {
  // Class 1 of the logits: 0 -> 0, 1 -> 0.5; all others stay as they are. Outside of the points the curve is flat.
  const PostProcessor post = processor(
      "calibration_config { class_id_function_approximations { class_id_xy_pairs_map { key: 1 value { x_y_pair { x: 0 "
      "y: 0 } "
      "x_y_pair { x: 1 y: 0.5 } } } } }");
  const at::Tensor scores =
      convert_scores(at::tensor({0.4f, 0.4f, 0.4f, 3.0f, 3.0f, -3.0f}).view({2, 3}), post.scores());
  expect_close(scores, at::tensor({0.4f, 0.2f, 0.4f, 3.0f, 0.5f, -3.0f}).view({2, 3}), 1e-6, 0, "scores");
}

TEST(PostProcessor, TheTrueImageIsTheTopLeftOfTheCanvas) {
  expect_close(true_image_windows(at::tensor({150, 300}, at::kLong).view({1, 2}), 300, 600),
               at::tensor({0.0f, 0.0f, 0.5f, 0.5f}).view({1, 4}), 0, 0, "window");
}

TEST(PostProcessor, StaticShapesSuppressFromTheThresholdOn) {
  // The second box is half of the first one.
  const at::Tensor boxes = at::tensor({0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 1.0f, 0.5f}).view({1, 2, 4}),
                   logits = at::tensor({0.9f, 0.8f}).view({1, 2, 1});
  const auto count = [&](const std::string& fields) {
    const PostProcessor post = processor("batch_non_max_suppression { " + fields + " }");
    return post(boxes, logits, /*has_background=*/false, at::tensor({0.0f, 0.0f, 1.0f, 1.0f})).count.item<int64_t>();
  };
  EXPECT_EQ(count("iou_threshold: 0.5"), 2);
  EXPECT_EQ(count("iou_threshold: 0.5 use_static_shapes: true"), 1);
  EXPECT_EQ(count("iou_threshold: 0.500001 use_static_shapes: true"), 2);
  EXPECT_EQ(count("iou_threshold: 0"), 1);
  EXPECT_EQ(count("iou_threshold: 0 use_static_shapes: true"), 2);
  EXPECT_EQ(count("iou_threshold: 0 use_static_shapes: true use_partitioned_nms: true"), 1);
}

TEST(PostProcessor, BadValuesAreReportedWithTheirField) {
  const auto reported = [](const char* text, const char* part) {
    EXPECT_THAT([=] { processor(text); }, ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(part))) << text;
  };
  reported("batch_non_max_suppression { iou_threshold: 1.5 }",
           "batch_non_max_suppression.iou_threshold: must be in [0, 1]");
  reported("batch_non_max_suppression { max_detections_per_class: 200 }", "max_total_detections");
  reported("batch_non_max_suppression { soft_nms_sigma: -1 }", "soft_nms_sigma");
  reported("batch_non_max_suppression { use_hard_nms: true soft_nms_sigma: 1 }", "use_hard_nms");
  reported("batch_non_max_suppression { use_combined_nms: true use_class_agnostic_nms: true }", "use_combined_nms");
  reported("batch_non_max_suppression { use_class_agnostic_nms: true max_classes_per_detection: 2 }",
           "is not supported yet");
  reported("logit_scale: 0", "logit_scale");
  reported("calibration_config {}", "calibration_config: no calibrator is chosen");
  reported("calibration_config { sigmoid_calibration {} }", "is not supported yet");
  reported("calibration_config { function_approximation { x_y_pairs { x_y_pair { x: 1 } x_y_pair { x: 0 } } } }",
           "x must ascend");
}

}  // namespace
}  // namespace osprey::boxes
