#include "osprey/boxes/box_coder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/boxes/builder.h"
#include "osprey/config/parse.h"
#include "osprey/protos/box_coder.pb.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using osprey::testing::expect_close;

std::unique_ptr<BoxCoder> coder(const std::string& text) {
  const auto parsed = config::parse<proto::BoxCoder>(text, "test");
  return build_box_coder(parsed.node());
}

const char* const kAll[] = {"faster_rcnn_box_coder {}", "mean_stddev_box_coder {}", "square_box_coder {}",
                            "keypoint_box_coder { num_keypoints: 2 }"};

TEST(BoxCoder, EveryChoiceHasAnImplementation) {
  const auto* oneof = proto::BoxCoder::descriptor()->FindOneofByName("box_coder_oneof");
  for (int i = 0; i < oneof->field_count(); ++i) {
    const auto* field = oneof->field(i);
    if (field->message_type()->full_name() == "google.protobuf.Any") continue;
    EXPECT_TRUE(BoxCoder::Registry::instance().has(field->message_type()->full_name())) << field->name();
  }
}

TEST(BoxCoder, FasterRcnnCodeByHand) {
  // Anchor 0.2 x 0.2 at (0.5, 0.5); box of twice its size, moved by a whole anchor: d = 1, log 2 = 0.693.
  const at::Tensor anchor = at::tensor({0.4f, 0.4f, 0.6f, 0.6f}).view({1, 4}),
                   moved = at::tensor({0.5f, 0.5f, 0.9f, 0.9f}).view({1, 4});
  const at::Tensor code =
      coder("faster_rcnn_box_coder { y_scale: 1 x_scale: 2 height_scale: 3 width_scale: 4 }")->encode(moved, anchor);
  expect_close(code, at::tensor({1.0f, 2.0f, 3 * 0.693147f, 4 * 0.693147f}).view({1, 4}), 1e-5, 0, "code");
}

TEST(BoxCoder, SquareCodeHasThreeNumbers) {
  // A box of 0.1 x 0.4 counts as a square of 0.2.
  const at::Tensor anchor = at::tensor({0.4f, 0.4f, 0.6f, 0.6f}).view({1, 4}),
                   flat = at::tensor({0.45f, 0.3f, 0.55f, 0.7f}).view({1, 4});
  expect_close(coder("square_box_coder {}")->encode(flat, anchor), at::zeros({1, 3}), 0, 1e-5, "code");
}

TEST(BoxCoder, DecodeInvertsEncodeInBatches) {
  at::manual_seed(1);
  const at::Tensor corner = at::rand({2, 5, 2}), size = at::rand({2, 5, 2}) + 0.1;
  at::Tensor boxes = at::cat({corner, corner + size}, -1),
             anchors = at::tensor({0.2f, 0.3f, 0.5f, 0.7f}).expand({5, 4}).contiguous();
  for (const char* text : kAll) {
    if (std::string(text).rfind("square", 0) == 0) continue;  // it keeps the area only
    const auto c = coder(text);
    const at::Tensor keypoints = at::rand({2, 5, 2, 2});
    const at::Tensor codes = c->encode(boxes, anchors, keypoints);
    EXPECT_EQ(codes.sizes(), at::IntArrayRef({2, 5, c->code_size()})) << text;
    expect_close(c->decode(codes, anchors), boxes, 1e-4, 1e-6, text);
    if (c->num_keypoints() > 0) expect_close(c->decode_keypoints(codes, anchors), keypoints, 1e-4, 1e-6, text);
  }
}

TEST(BoxCoder, BoxesWithoutAreaAndNoAnchorsAreFine) {
  const at::Tensor anchors = at::tensor({0.2f, 0.3f, 0.5f, 0.7f}).view({1, 4});
  for (const char* text : kAll) {
    const auto c = coder(text);
    EXPECT_TRUE(c->encode(at::zeros({1, 4}), anchors, at::zeros({1, 2, 2})).isfinite().all().item<bool>()) << text;
    EXPECT_EQ(c->encode(at::zeros({3, 0, 4}), at::zeros({0, 4}), at::zeros({3, 0, 2, 2})).sizes(),
              at::IntArrayRef({3, 0, c->code_size()}))
        << text;
    EXPECT_EQ(c->decode(at::zeros({3, 0, c->code_size()}), at::zeros({0, 4})).sizes(), at::IntArrayRef({3, 0, 4}))
        << text;
  }
}

TEST(BoxCoder, DecodeLetsGradientsFlow) {
  const at::Tensor anchors = at::tensor({0.2f, 0.3f, 0.5f, 0.7f}).view({1, 4});
  for (const char* text : kAll) {
    const auto c = coder(text);
    at::Tensor codes = at::zeros({1, c->code_size()}).requires_grad_();
    c->decode(codes, anchors).square().sum().backward();
    EXPECT_GT(codes.grad().abs().sum().item<float>(), 0) << text;
  }
}

TEST(BoxCoder, WrongShapesThrow) {
  for (const char* text : kAll) {
    EXPECT_THROW(coder(text)->decode(at::zeros({2, 9}), at::zeros({2, 4})), c10::Error) << text;
    EXPECT_THROW(coder(text)->encode(at::zeros({3, 4}), at::zeros({2, 4})), c10::Error) << text;
  }
  EXPECT_THROW(coder("keypoint_box_coder { num_keypoints: 2 }")->encode(at::zeros({2, 4}), at::zeros({2, 4})),
               c10::Error);
  EXPECT_THROW(coder("square_box_coder {}")->decode_keypoints(at::zeros({2, 3}), at::zeros({2, 4})), c10::Error);
}

TEST(BoxCoder, ScalesOutOfRangeAreReportedWithTheirLine) {
  EXPECT_THAT([] { coder("faster_rcnn_box_coder {\n  x_scale: 0\n}"); },
              ::testing::ThrowsMessage<ConfigError>(
                  ::testing::AllOf(::testing::HasSubstr("test:2:"), ::testing::HasSubstr("x_scale"))));
  EXPECT_THROW(coder("mean_stddev_box_coder { stddev: -1 }"), ConfigError);
  EXPECT_THROW(coder(""), ConfigError);
}

}  // namespace
}  // namespace osprey::boxes
