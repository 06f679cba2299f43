#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/random_boxes.h"
#include "osprey/data/resize.h"
#include "osprey/kernels/assign_targets.h"
#include "osprey/kernels/box_codes.h"
#include "osprey/kernels/box_loss.h"
#include "osprey/kernels/preprocess.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::osprey::testing::random_boxes;
using ::testing::HasSubstr;

template <class Call>
std::string message(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

at::Tensor side(const at::Tensor& boxes, int64_t k) { return boxes.select(-1, k); }

/// Labels of three classes and weights for boxes [B, M, 4].
LabeledBoxes labeled(const at::Tensor& boxes) {
  const int64_t B = boxes.size(0), M = boxes.size(1);
  return {boxes, at::rand({B, M, 3}), at::rand({B, M})};
}

TEST(AssignTargets, CodesEqualTheirDefinition) {
  at::manual_seed(1);
  const at::Tensor truth = random_boxes({2, 5, 2}), anchors = random_boxes({3000, 2}),
                   match = at::randint(-2, 5, {2, 3000}, at::kLong);
  const CodeScales scales{10, 8, 5, 4};
  const at::Tensor ours = assign_targets(labeled(truth), match, anchors, &scales, {}).boxes;
  const at::Tensor own = truth.gather(1, match.clamp_min(0).unsqueeze(-1).expand({2, 3000, 4})).to(at::kDouble),
                   a = anchors.to(at::kDouble);
  const at::Tensor ha = side(a, 2) - side(a, 0), wa = side(a, 3) - side(a, 1), h = side(own, 2) - side(own, 0),
                   w = side(own, 3) - side(own, 1);
  const at::Tensor exact = at::stack({(side(own, 0) + side(own, 2) - side(a, 0) - side(a, 2)) / 2 / (ha + 1e-8) * 10,
                                      (side(own, 1) + side(own, 3) - side(a, 1) - side(a, 3)) / 2 / (wa + 1e-8) * 8,
                                      ((h + 1e-8) / (ha + 1e-8)).log() * 5, ((w + 1e-8) / (wa + 1e-8)).log() * 4},
                                     -1) *
                           match.ge(0).unsqueeze(-1);
  expect_close(ours, exact, 1e-3, 1e-4, "codes");
  EXPECT_EQ(ours.masked_select(match.lt(0).unsqueeze(-1)).abs().max().item<float>(), 0);
}

TEST(AssignTargets, EachAnchorHasTheRowAndTheWeightOfItsBox) {
  at::manual_seed(2);
  const LabeledBoxes truth = labeled(random_boxes({2, 3, 2}));
  const at::Tensor match = at::tensor({2, -1, -2, 0, 0, -2, 1, -1}, at::kLong).view({2, 4});
  for (const bool in_first : {false, true}) {
    const Targets targets = assign_targets(truth, match, random_boxes({4, 2}), nullptr, {in_first, 0.25f});
    EXPECT_FALSE(targets.boxes.defined()) << "another coder makes the codes";
    EXPECT_TRUE(at::equal(targets.match.box, match));
    const at::Tensor classes = targets.classes.of_anchors(), weights = targets.classes.weights_of_anchors();
    for (int64_t image = 0; image < 2; ++image)
      for (int64_t anchor = 0; anchor < 4; ++anchor) {
        const auto box = match[image][anchor].item<int64_t>();
        const float weight = box >= 0 ? truth.weights[image][box].item<float>() : 0;
        const at::Tensor background = at::tensor({in_first ? 1.0f : 0.0f, 0.0f, 0.0f});
        EXPECT_TRUE(at::equal(classes[image][anchor], box >= 0 ? truth.labels[image][box] : background));
        EXPECT_EQ(weights[image][anchor].item<float>(), box == Match::kBackground ? 0.25f : weight);
        EXPECT_EQ(targets.box_weights[image][anchor].item<float>(), weight);
      }
  }
}

TEST(AssignTargets, StaysFiniteWithoutAreaAndTakesNothing) {
  const at::Tensor point = at::full({1, 1, 4}, 0.5f), anchor = at::full({1, 4}, 0.5f);
  const CodeScales scales;
  EXPECT_TRUE(assign_targets(labeled(point), at::zeros({1, 1}, at::kLong), anchor, &scales, {})
                  .boxes.isfinite()
                  .all()
                  .item<bool>());
  const Targets empty =
      assign_targets(labeled(at::zeros({2, 0, 4})), at::full({2, 3}, -1, at::kLong), at::zeros({3, 4}), &scales, {});
  EXPECT_EQ(empty.boxes.abs().max().item<float>(), 0);
  EXPECT_EQ(empty.classes.rows.sizes(), (at::IntArrayRef{2, 2, 3}));
  EXPECT_EQ(assign_targets(labeled(at::zeros({2, 1, 4})), at::empty({2, 0}, at::kLong), at::zeros({0, 4}), &scales, {})
                .boxes.sizes(),
            (at::IntArrayRef{2, 0, 4}));
}

TEST(AssignTargets, NamesWhatDisagrees) {
  const LabeledBoxes truth = labeled(at::zeros({2, 3, 4}));
  const at::Tensor anchors = at::zeros({5, 4}), match = at::zeros({2, 5}, at::kLong);
  const CodeScales scales;
  const auto call = [&](const LabeledBoxes& boxes, const at::Tensor& found) {
    return message([&] { assign_targets(boxes, found, anchors, &scales, {}); });
  };
  EXPECT_THAT(call(truth, match.slice(1, 1)), HasSubstr("match must be int64 [2, 5]"));
  EXPECT_THAT(call({truth.boxes.to(at::kDouble), truth.labels, truth.weights}, match),
              HasSubstr("boxes must be float32"));
  EXPECT_THAT(call({truth.boxes, truth.labels.slice(1, 1), truth.weights}, match),
              HasSubstr("labels must be float32 [2, 3, C]"));
  EXPECT_THAT(call({truth.boxes, truth.labels, truth.labels}, match), HasSubstr("weights must be float32 [2, 3]"));
  if (device::reading_waits(match)) return;
  for (const int64_t none : {-3, 3})
    EXPECT_THAT(call(truth, at::full_like(match, none)), HasSubstr("a match lies outside [-2, 3)"));
}

TEST(DecodeBoxes, EqualsItsDefinitionAndItsGradient) {
  at::manual_seed(3);
  const CodeScales scales{10, 8, 5, 4};
  const at::Tensor anchors = random_boxes({400, 2}), up = at::randn({2, 400, 4});
  const at::Tensor codes = at::randn({2, 400, 4}).requires_grad_(),
                   exact_codes = codes.detach().to(at::kDouble).requires_grad_();
  const at::Tensor ours = decode_boxes(codes, anchors, scales);
  (ours * up).sum().backward();
  const at::Tensor a = anchors.to(at::kDouble), ha = side(a, 2) - side(a, 0), wa = side(a, 3) - side(a, 1);
  const at::Tensor y = side(exact_codes, 0) / 10 * ha + side(a, 0) + ha / 2,
                   x = side(exact_codes, 1) / 8 * wa + side(a, 1) + wa / 2, h = (side(exact_codes, 2) / 5).exp() * ha,
                   w = (side(exact_codes, 3) / 4).exp() * wa;
  const at::Tensor exact = at::stack({y - h / 2, x - w / 2, y + h / 2, x + w / 2}, -1);
  (exact * up).sum().backward();
  expect_close(ours.detach(), exact.detach(), 1e-6, 1e-6, "boxes");
  expect_close(codes.grad(), exact_codes.grad(), 1e-5, 1e-6, "gradient");
}

TEST(DecodeBoxes, NamesWhatItDoesNotTake) {
  EXPECT_THAT(message([] {
                decode_boxes(at::zeros({2, 3, 4}), at::zeros({2, 4}), {});
              }),
              HasSubstr("expected float32 codes [..., A, 4]"));
  EXPECT_EQ(decode_boxes(at::zeros({2, 0, 4}), at::zeros({0, 4}), {}).numel(), 0);
}

TEST(SmoothL1Loss, EqualsItsDefinitionAndItsGradient) {
  at::manual_seed(2);
  for (const double delta : {0.3, 1.0}) {
    const at::Tensor x = (at::randn({2, 700, 6}) * 2).requires_grad_(), t = at::randn({2, 700, 6}),
                     w = at::rand({2, 700});
    const at::Tensor up = at::rand({2, 700}), ours = smooth_l1_loss(x, t, w, delta);
    (ours * up).sum().backward();
    const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_();
    const at::Tensor loss = at::huber_loss(exact, t.to(at::kDouble), at::Reduction::None, delta).sum(-1) * w;
    (loss * up).sum().backward();
    expect_close(ours.detach(), loss.detach(), 1e-5, 1e-5, "loss");
    expect_close(x.grad(), exact.grad(), 1e-6, 1e-5, "gradient");
  }
}

TEST(SmoothL1Loss, OfBoxesIsThatOfTheirCodes) {
  at::manual_seed(3);
  const CodeScales scales{10, 8, 5, 4};
  LabeledBoxes truth = labeled(random_boxes({2, 5, 2}));
  truth.boxes[1][3] = at::tensor({0.4f, 0.4f, 0.2f, 0.6f});  // upside down: the code of its height is not a number
  const at::Tensor anchors = random_boxes({300, 2}), match = at::randint(-2, 5, {2, 300}, at::kLong),
                   weights = at::rand({2, 300}), up = at::rand({2, 300});
  const Targets targets = assign_targets(truth, match, anchors, &scales, {});
  ASSERT_TRUE(targets.boxes.isnan().any().item<bool>());
  const at::Tensor x = at::randn({2, 300, 4}).requires_grad_(), same = x.detach().clone().requires_grad_();
  const at::Tensor ours = encoded_smooth_l1_loss(x, {targets.truth, match, anchors, scales}, weights, 0.7),
                   codes = smooth_l1_loss(same, targets.boxes, weights, 0.7);
  EXPECT_TRUE(at::equal(ours, codes));
  EXPECT_TRUE(ours.isfinite().all().item<bool>());
  (ours * up).sum().backward();
  (codes * up).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), same.grad()));
}

TEST(SmoothL1Loss, ATargetThatIsNotANumberIsThePrediction) {
  const at::Tensor x = at::tensor({3.0f, 2.0f}).view({1, 1, 2}).requires_grad_();
  const at::Tensor loss = smooth_l1_loss(x, at::tensor({NAN, 0.0f}).view({1, 1, 2}), at::ones({1, 1}), 1);
  EXPECT_EQ(loss.item<float>(), 1.5f);
  loss.sum().backward();
  EXPECT_EQ(x.grad()[0][0][0].item<float>(), 0);
  EXPECT_EQ(x.grad()[0][0][1].item<float>(), 1);
}

TEST(SmoothL1Loss, LetsNotANumberThrough) {
  const at::Tensor x = at::tensor({0.0f, NAN}).view({1, 1, 2}).requires_grad_();
  const at::Tensor loss = smooth_l1_loss(x, at::zeros({1, 1, 2}), at::ones({1, 1}), 1);
  EXPECT_TRUE(loss.isnan().all().item<bool>());
  loss.sum().backward();
  EXPECT_EQ(x.grad()[0][0][0].item<float>(), 0);
  EXPECT_TRUE(x.grad()[0][0][1].isnan().item<bool>());
}

TEST(BoxLoss, NamesWhatDisagrees) {
  const at::Tensor x = at::zeros({2, 3, 4}), w = at::ones({2, 3});
  EXPECT_THAT(message([&] { smooth_l1_loss(x, x.slice(2, 1), w, 1); }),
              HasSubstr("targets like the predictions, [2, 3, 4]"));
  const at::Tensor match = at::zeros({2, 3}, at::kLong), anchors = at::zeros({3, 4});
  const auto of_boxes = [&](const at::Tensor& codes, const MatchedBoxes& boxes) {
    return message([&] { encoded_smooth_l1_loss(codes, boxes, w, 1); });
  };
  EXPECT_THAT(of_boxes(x.slice(2, 1), {x, match, anchors, {}}), HasSubstr("codes of boxes, [B, A, 4], got [2, 3, 3]"));
  EXPECT_THAT(of_boxes(x, {x.slice(0, 1), match, anchors, {}}), HasSubstr("boxes must be float32 [2, M, 4]"));
  EXPECT_THAT(of_boxes(x, {x, match.slice(1, 1), anchors, {}}), HasSubstr("match must be int64 [2, 3]"));
  EXPECT_THAT(of_boxes(x, {x, match, anchors.slice(0, 1), {}}), HasSubstr("anchors must be float32 [3, 4]"));
  EXPECT_THAT(message([&] { giou_loss(x.slice(2, 1), x.slice(2, 1), w); }), HasSubstr("expected boxes [B, A, 4]"));
  if (!device::reading_waits(match)) {
    EXPECT_THAT(of_boxes(x, {x, at::full_like(match, 3), anchors, {}}), HasSubstr("a match lies outside"));
  }
  EXPECT_FALSE(takes_box_loss(x, x));
  EXPECT_FALSE(takes_box_loss(x.to(at::kDouble), w));
}

TEST(Preprocess, ScalesShiftsAndPads) {
  at::manual_seed(3);
  const at::Tensor images = at::randint(0, 256, {2, 3, 5, 7}, at::kByte),
                   shapes = at::tensor({5, 7, 3, 2, 4, 3}, at::kLong).view({2, 3});
  const PreprocessOptions options{.scale = {0.5, 2, 1}, .offset = {-1, 0, 3}, .pad = {0, 7, -2}};
  const at::Tensor scale = at::tensor({0.5f, 2.0f, 1.0f}).view({1, 3, 1, 1}),
                   offset = at::tensor({-1.0f, 0.0f, 3.0f}).view({1, 3, 1, 1}),
                   pad = at::tensor({0.0f, 7.0f, -2.0f}).view({3, 1, 1});
  at::Tensor exact = images.to(at::kFloat) * scale + offset;
  EXPECT_TRUE(at::equal(preprocess(images, {}, options), exact));
  EXPECT_TRUE(at::equal(preprocess(images.to(at::kFloat), {}, options), exact));
  exact[1] = pad.expand({3, 5, 7});
  exact[1].slice(1, 0, 2).slice(2, 0, 4) =
      (images[1].to(at::kFloat) * scale[0] + offset[0]).slice(1, 0, 2).slice(2, 0, 4);
  const at::Tensor two = at::tensor({5, 7, 2, 4}, at::kLong).view({2, 2});
  EXPECT_TRUE(at::equal(preprocess(images, two, options), exact));
  PreprocessOptions half = options;
  half.type = at::kBFloat16;
  EXPECT_TRUE(at::equal(preprocess(images, two, half), exact.to(at::kBFloat16)));
  EXPECT_TRUE(preprocess(images, shapes, options).is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(Preprocess, LinesNeedNotComeOutEven) {
  at::manual_seed(4);
  const PreprocessOptions options{.pad = {1, 2, 3}};
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{8, 12}, {16, 2}, {4, 6}, {3, 5}, {8, 1}}) {
    const at::Tensor images = at::randint(0, 256, {3, 3, height, width}, at::kByte),
                     shapes =
                         at::tensor({height, width, height - 1, width - 1, int64_t{1}, width}, at::kLong).view({3, 2});
    at::Tensor exact = at::tensor({1.0f, 2.0f, 3.0f}).view({1, 3, 1, 1}).expand({3, 3, height, width}).clone();
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t rows = shapes[i][0].item<int64_t>(), columns = shapes[i][1].item<int64_t>();
      exact[i].slice(1, 0, rows).slice(2, 0, columns) = images[i].slice(1, 0, rows).slice(2, 0, columns).to(at::kFloat);
    }
    EXPECT_TRUE(at::equal(preprocess(images, shapes, options), exact)) << height << " x " << width;
  }
  EXPECT_EQ(preprocess(at::zeros({0, 3, 4, 4}, at::kByte), {}, options).numel(), 0);
}

/// As the original scales them: the product is rounded before the offset is added.
TEST(Preprocess, EveryPixelIsThatOfAProductAndASum) {
  at::Tensor images = at::arange(2 * 3 * 11 * 37).remainder(256).to(at::kByte).view({2, 3, 11, 37});
  images = images.contiguous(at::MemoryFormat::ChannelsLast);
  const PreprocessOptions options{.scale = {2.0 / 255, 2.0 / 255, 1 / 57.375}, .offset = {-1, -1, -2.11790393}};
  const auto channels = [](const auto& values) {
    return at::tensor(at::ArrayRef<double>(values.data(), values.size())).to(at::kFloat).view({1, 3, 1, 1});
  };
  const at::Tensor products = images.to(at::kFloat) * channels(options.scale);
  EXPECT_TRUE(at::equal(preprocess(images, {}, options), products + channels(options.offset)));
  EXPECT_TRUE(at::equal(preprocess(images.to(at::kFloat), {}, options), products + channels(options.offset)));
}

TEST(Preprocess, ResizesAsTheLoaderDoes) {
  at::manual_seed(4);
  const at::Tensor images = at::randint(0, 256, {3, 3, 30, 40}, at::kByte);
  const at::Tensor sources = at::tensor({30, 40, 1, 1, 11, 23}, at::kLong).view({3, 2}),
                   shapes = at::tensor({24, 19, 9, 20, 24, 20}, at::kLong).view({3, 2});
  const PreprocessOptions options{.scale = {2, 1, 1}, .offset = {-1, 0, 3}, .pad = {5, 6, 7}};
  const at::Tensor result = preprocess(images, shapes, options, {sources, 24, 20});
  ASSERT_EQ(result.sizes(), (at::IntArrayRef{3, 3, 24, 20}));
  at::Tensor resized = at::zeros({3, 3, 24, 20});
  const auto window = [](const at::Tensor& image, const at::Tensor& shape) {
    return image.slice(1, 0, shape[0].item<int64_t>()).slice(2, 0, shape[1].item<int64_t>());
  };
  for (int64_t i = 0; i < 3; ++i) {
    at::Tensor content = window(resized[i], shapes[i]);
    const at::Tensor picture = window(images[i], sources[i]).permute({1, 2, 0}).contiguous();
    content.copy_(data::resize(picture, content.size(1), content.size(2)).permute({2, 0, 1}));
  }
  // Values up to 510, of which either way may round a product before it is added.
  EXPECT_TRUE(at::allclose(result, preprocess(resized, shapes, options), 0, 2e-4));
  EXPECT_TRUE(at::equal(preprocess(images, {}, options, {at::tensor({30, 40}, at::kLong).expand({3, 2}), 30, 40}),
                        preprocess(images, {}, options)))
      << "to the size that it has";
}

TEST(Preprocess, NamesWhatDisagrees) {
  const at::Tensor images = at::zeros({2, 3, 5, 7}, at::kByte);
  EXPECT_THAT(message([&] {
                preprocess(images, {}, {}, {at::ones({1, 2}, at::kLong), 4, 4});
              }),
              HasSubstr("source_shapes [2, 2]"));
  EXPECT_THAT(message([&] {
                preprocess(images, {}, {}, {at::ones({2, 2}, at::kLong), 4, 0});
              }),
              HasSubstr("got size [4, 0]"));
  EXPECT_THAT(message([&] { preprocess(images.slice(1, 1), {}, {}); }), HasSubstr("expected images [B, 3, H, W]"));
  EXPECT_THAT(message([&] { preprocess(images, at::zeros({1, 2}, at::kLong), {}); }), HasSubstr("true_shapes [2, 2]"));
  EXPECT_THAT(message([&] { preprocess(images, {}, {.type = at::kInt}); }), HasSubstr("does not take"));
  EXPECT_THAT(message([&] {
                preprocess(at::empty({1, 3, 20000, 20000}, images.options().device(at::kMeta)), {}, {});
              }),
              HasSubstr("fewer than 2^30 numbers"));
  if (device::reading_waits(images)) return;
  const auto resized = [&](int64_t height, int64_t width) {
    const at::Tensor shapes = at::tensor({int64_t{5}, int64_t{7}, height, width}).view({2, 2});
    return message([&] { preprocess(images, {}, {}, {shapes, 4, 4}); });
  };
  EXPECT_EQ(resized(1, 7), "");
  EXPECT_THAT(resized(6, 7), HasSubstr("the height of a picture lies outside [1, 6)"));
  EXPECT_THAT(resized(5, 0), HasSubstr("the width of a picture lies outside [1, 8)"));
}

}  // namespace
}  // namespace osprey::kernels
