#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "../src/export/onnx/network.h"
#include "../src/export/onnx/rules.h"
#include "../src/export/onnx/suppression.h"
#include "export/traced_function.h"
#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/runtimes.h"

namespace osprey {
namespace {

using at::Tensor;
using testing::Function;
using ::testing::HasSubstr;
using testing::traced;

/// A file of the graph, with outputs "0", "1", ...
std::string file_of(torch::jit::Graph& network, const Tensor& x, const std::vector<Tensor>& expected) {
  const auto shape = [](const Tensor& value) {
    return std::vector<OnnxGraph::Dimension>(value.sizes().begin(), value.sizes().end());
  };
  OnnxGraph graph("functions");
  const std::vector<OnnxValue> found = add_network(graph, network, {graph.input("x", x.scalar_type(), shape(x))});
  for (size_t i = 0; i < expected.size(); ++i)
    graph.output(std::to_string(i).c_str(), found.at(i), expected[i].scalar_type(), shape(expected[i]));
  return graph.file();
}

/// Each operation that there is a rule for, in each form that a rule tells apart. x is [2, 3, 8, 9] float32.
std::vector<Tensor> every_operation(const Tensor& x) {
  const Tensor weights = at::linspace(-1, 1, 6 * 3 * 3 * 3).view({6, 3, 3, 3}),
               depthwise = at::linspace(-1, 1, 27).view({3, 1, 3, 3}), of_channels = at::linspace(0.5, 2, 3),
               row = at::linspace(-1, 1, 9), knots = at::linspace(-1.5, 1.5, 5);
  const Tensor count = (x * 10).to(at::kLong), positive = x > 0, small = x < 0.5f;
  const std::vector<Tensor> slices = x.unbind(1);
  const Tensor scales = [] {  // written down, as those of networks are
    const at::tracer::impl::NoTracerDispatchMode not_traced;
    return at::linspace(0.003, 0.009, 3);
  }();
  std::vector<Tensor> result{
      at::conv2d(x, weights, {}, 2, 1),
      at::conv2d(x, depthwise, of_channels, 1, {2, 1}, {2, 1}, /*groups=*/3),
      at::batch_norm(x, of_channels, of_channels - 1, of_channels, of_channels, false, 0.1, 1e-3, false),
      at::batch_norm(x, {}, {}, of_channels, of_channels, false, 0.1, 0.5, false),
      at::max_pool2d(x, 3, 2, 1),
      at::max_pool2d(x, 2, 2, 0, 1, /*ceil_mode=*/true),
      at::max_pool2d(x, {2, 3}),
      at::avg_pool2d(x, 3, 1, 1, false, /*count_include_pad=*/false),
      at::avg_pool2d(x, 3, 2, 1, /*ceil_mode=*/true, /*count_include_pad=*/true),
      x.mean({2, 3}, true),
      x.mean(),
      x.mean(at::OptionalIntArrayRef(), true),
      x.mean(-1),
      at::upsample_nearest2d(x, {16, 27}),
      at::upsample_nearest2d(x, {11, 20}),
      at::upsample_nearest2d(x, {5, 4}),
      at::upsample_nearest2d(x, {13, 11}, 1.7, 1.3),
      at::upsample_nearest2d(x, {16, 18}, 2.0, 2.0),
      at::constant_pad_nd(x, {1, 2, -1, 0}, 0.5),
      at::relu(x),
      at::sigmoid(x),
      at::silu(x),
      at::hardtanh(x, -0.5, 0.7),
      at::hardswish(4 * x),
      at::hardsigmoid(4 * x),
      at::softmax(x, -1),
      x + row,
      x + 2,
      at::add(x, row, 0.5),
      x - row,
      at::sub(x, row, 3),
      at::rsub(x, 1),
      x * 1.5,
      x * count,
      x / of_channels.view({3, 1, 1}),
      at::exp(x),
      at::exp(count),
      at::square(x),
      at::minimum(x, row),
      at::maximum(x, row),
      x.clamp(-0.3, 0.4),
      x.clamp(c10::nullopt, 0.4),
      count.clamp(-3, 4),
      count.clamp_min(2),
      count.clamp_max(2),
      x.clamp(row, row + 1),
      at::fake_quantize_per_tensor_affine(x, 0.013, 40, 0, 255),
      at::fake_quantize_per_tensor_affine(x, 0.002, 0, 0, 255),
      count.clamp(at::full({}, -2.5), {}),
      count + 1,
      at::where(at::logical_and(positive, small), x, row),
      at::where(at::logical_not(positive), x, at::zeros({})),
      at::where(count < 3, x, row),
      count<2.5, count>
          x,
      at::logical_and(x, count),
      x.masked_fill(positive, -2),
      at::searchsorted(knots, x.contiguous()),
      knots.take(count.clamp(0, 4)),
      (1 - x) * 2,
      at::full_like(x, 3) + x,
      at::cat({x, x * 2}, -2),
      at::cat({x, count, at::empty({0})}, 1),
      at::stack({count, x}, 0),
      at::stack({x, x * 2}, -1),
      x.permute({0, 2, 3, 1}),
      x.permute({0, -1, 1, 2}),
      x.narrow(-1, 2, 3),
      x.reshape({2, 3, -1}),
      x.view({6, 72}),
      x.flatten(1),
      x.unsqueeze(-1),
      x.slice(2, 1, 2).squeeze(2),
      x.slice(1, 0, 1).expand({2, 3, 8, 9}) + 0.f,
      x.select(-1, -1),
      x.slice(3, 1, -2, 3),
      slices[2] + slices[0],
      count.to(at::kFloat),
      x.permute({0, 2, 3, 1}).contiguous(),
      x.clone() + 1,
      x.detach() + 1,
      at::conv2d(x, at::fake_quantize_per_channel_affine(depthwise, scales, at::zeros({3}, at::kInt), 0, -127, 127), {},
                 1, 1, 1, /*groups=*/3),
  };
  Tensor changed = x * 2;
  changed.mul_(of_channels.view({3, 1, 1})).add_(1).relu_();
  result.push_back(changed);
  return result;
}

Tensor example() {
  at::manual_seed(3);
  return at::randn({2, 3, 8, 9});
}

TEST(OnnxRules, GiveWhatLibtorchGives) {
  if (!testing::has_onnx_runtime()) GTEST_SKIP() << testing::kNoOnnxRuntime;
  const Tensor x = example();
  const std::vector<Tensor> expected = every_operation(x);
  const auto found = testing::run_onnx(file_of(*traced(every_operation, x), x, expected), {{"x", x}});
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string name = std::to_string(i);
    ASSERT_EQ(found.at(name).scalar_type(), expected[i].scalar_type()) << name;
    if (expected[i].scalar_type() == at::kBool)
      EXPECT_TRUE(found.at(name).equal(expected[i])) << name;
    else
      testing::expect_close(found.at(name), expected[i], 1e-5, 1e-5, "result " + name);
  }
}

TEST(OnnxRules, AreAllTried) {
  const auto tried = testing::operations_of(*traced(every_operation, example()));
  for (const std::string_view name : onnx_rules()) EXPECT_TRUE(tried.contains(name)) << name;
}

void expect_refused(const Function& function, const std::string& why) {
  const Tensor x = example();
  const auto network = traced(function, x);
  EXPECT_THAT([&] { file_of(*network, x, function(x)); }, ::testing::ThrowsMessage<ConfigError>(HasSubstr(why)));
}

TEST(OnnxRules, WhatOnnxDoesNotHoldIsNamed) {
  expect_refused([](const Tensor& x) { return std::vector{at::erfinv(x)}; }, "aten::erfinv");
  expect_refused([](const Tensor& x) { return std::vector{std::get<0>(x.max(1))}; }, "aten::max");
  expect_refused([](const Tensor& x) { return std::vector{x.chunk(3, 1)[0]}; }, "aten::chunk");
  expect_refused(
      [](const Tensor& x) {
        return std::vector{at::conv_transpose2d(x, at::ones({3, 2, 2, 2}))};
      },
      "directions exchanged");
  expect_refused([](const Tensor& x) { return std::vector{at::avg_pool2d(x, 2, 2, 0, false, true, /*divisor=*/3)}; },
                 "divisor");
  expect_refused([](const Tensor& x) { return std::vector{at::max_pool2d(x, 2, 4, 0, 1, /*ceil_mode=*/true)}; },
                 "no last window");
  expect_refused([](const Tensor& x) { return std::vector{at::rsub(x, 1, 3)}; }, "a factor");
  expect_refused([](const Tensor& x) { return std::vector{at::div(x, 0.3, "floor")}; }, "rounding");
  expect_refused([](const Tensor& x) { return std::vector{at::softmax(x, 1, at::kDouble)}; }, "another type");
  expect_refused([](const Tensor& x) { return std::vector{x.mean({1}, false, at::kDouble)}; }, "another type");
  expect_refused([](const Tensor& x) { return std::vector{at::conv1d(x[0], at::ones({2, 8, 3}))}; }, "dimensions");
  expect_refused([](const Tensor& x) { return std::vector{(x > 0) + (x < 1)}; }, "truth values");
  expect_refused([](const Tensor& x) { return std::vector{at::relu((x * 10).to(at::kLong))}; }, "whole numbers");
  expect_refused([](const Tensor& x) { return std::vector{at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-3, false)}; },
                 "statistics");
  for (const bool right : {false, true})
    expect_refused(
        [=](const Tensor& x) {
          return std::vector{at::searchsorted(at::linspace(0, 1, 3), x, /*out_int32=*/!right, right)};
        },
        right ? "equal numbers" : "int32");
}

TEST(OnnxRules, WhatIsChangedUnderOthersEyesIsRefused) {
  expect_refused(
      [](const Tensor& x) {
        const Tensor whole = x * 2, part = whole.select(1, 0);
        part.add_(1);
        return std::vector{whole};
      },
      "aten::add_ changes what other operations read");
}

/// Options of a suppression, and how many boxes it sees.
struct Suppression {
  const char* name;
  boxes::NmsOptions options;
  int64_t num_anchors = 40;
  int64_t num_box_columns = 1;
};

void PrintTo(const Suppression& suppression, std::ostream* out) { *out << suppression.name; }

class OnnxSuppression : public ::testing::TestWithParam<Suppression> {};

TEST_P(OnnxSuppression, IsThatOfTheModel) {
  if (!testing::has_onnx_runtime()) GTEST_SKIP() << testing::kNoOnnxRuntime;
  constexpr int64_t kClasses = 3;
  const auto& [name, options, anchors, columns] = GetParam();
  at::manual_seed(11);
  // Some boxes lie outside of the window, and some corners are flipped.
  const Tensor centres = at::rand({anchors, columns, 2}) * 1.2 - 0.1,
               sides = at::rand({anchors, columns, 2}) * 0.6 - 0.1;
  const Tensor boxes = at::cat({centres - sides / 2, centres + sides / 2}, -1), scores = at::rand({anchors, kClasses}),
               window = at::tensor({0.f, 0.f, 0.75f, 1.f});
  const auto expected = boxes::batch_non_max_suppression((columns == 1 ? boxes.squeeze(1) : boxes).unsqueeze(0),
                                                         scores.unsqueeze(0), options, window.unsqueeze(0))
                            .detections;

  OnnxGraph graph("suppression");
  const OnnxDetections found = add_suppression(graph, graph.input("boxes", at::kFloat, {anchors, columns, int64_t{4}}),
                                               columns, graph.input("scores", at::kFloat, {anchors, kClasses}),
                                               graph.input("window", at::kFloat, {int64_t{4}}), options);
  const int64_t rows = options.max_total_detections;
  graph.output("out_boxes", found.boxes, at::kFloat, {rows, int64_t{4}});
  graph.output("out_scores", found.scores, at::kFloat, {rows});
  graph.output("out_classes", found.classes, at::kFloat, {rows});
  graph.output("out_count", found.count, at::kFloat, {});
  const auto values = testing::run_onnx(graph.file(), {{"boxes", boxes}, {"scores", scores}, {"window", window}});
  const int64_t count = expected.count.item<int64_t>();
  EXPECT_EQ(values.at("out_count").item<float>(), static_cast<float>(count));
  testing::expect_close(values.at("out_boxes"), expected.boxes[0], 0, 1e-6, "boxes");
  testing::expect_close(values.at("out_scores"), expected.scores[0], 0, 0, "scores");
  const Tensor is_found = at::arange(rows) < count;
  testing::expect_close(values.at("out_classes"), at::where(is_found, expected.classes[0] + 1, 0).to(at::kFloat), 0, 0,
                        "classes");
}

INSTANTIATE_TEST_SUITE_P(
    Forms, OnnxSuppression,
    ::testing::Values(Suppression{"Plain",
                                  {.score_threshold = 0.2f, .iou_threshold = 0.4f, .max_total_detections = 20}},
                      Suppression{"LongerThanAllThereIs", {.max_total_detections = 500}},
                      Suppression{"NothingIsFound", {.score_threshold = 2, .max_total_detections = 5}},
                      Suppression{"NothingIsFoundAndRowsHaveAScore",
                                  {.score_threshold = 2, .max_total_detections = 5, .padding_score = -1}},
                      Suppression{"FewOfAClass", {.max_detections_per_class = 4, .max_total_detections = 30}},
                      Suppression{"BoxesOfEachClass", {.iou_threshold = 0.3f, .max_total_detections = 30}, 40, 3},
                      Suppression{"ClassAgnosticWithBoxesOfEachClass",
                                  {.iou_threshold = 0.3f, .max_total_detections = 12, .class_agnostic = true},
                                  40,
                                  3},
                      Suppression{"ClassAgnostic", {.max_total_detections = 12, .class_agnostic = true}},
                      Suppression{"Combined", {.max_total_detections = 200, .combined = true}},
                      Suppression{"OnTheCanvas", {.max_total_detections = 30, .change_coordinate_frame = false}},
                      Suppression{"NothingSuppresses", {.iou_threshold = INFINITY, .max_total_detections = 200}},
                      Suppression{"OneAnchor", {.max_total_detections = 3}, 1}),
    [](const auto& form) { return form.param.name; });

TEST(OnnxGraph, AFileThatIsNotValidIsABugThatIsNamed) {
  OnnxGraph graph("wrong");
  const OnnxValue x = graph.input("x", at::kFloat, {int64_t{2}});
  graph.output("y", graph.add("Add", {x, graph.integer(1)}), at::kFloat, {int64_t{2}});
  EXPECT_THAT([&] { graph.file(); }, ::testing::ThrowsMessage<c10::Error>(HasSubstr("is not a valid one")));
}

TEST(OnnxGraph, ATensorIsWrittenOnce) {
  OnnxGraph graph("constants");
  const Tensor one = at::ones({3}), other = at::ones({3});
  EXPECT_EQ(graph.constant(one), graph.constant(one));
  EXPECT_NE(graph.constant(one), graph.constant(other));
  EXPECT_NE(graph.constant(one), graph.constant(one.view({1, 3}))) << "of another shape";
  EXPECT_NE(graph.constant(one), graph.constant(one.slice(0, 0, 2))) << "a part of it";
  EXPECT_NE(graph.constant(one), graph.constant(one.slice(0, 0, 1).expand({3}))) << "otherwise laid";
  EXPECT_EQ(graph.integers({1, 2}), graph.integers({1, 2}));
  EXPECT_NE(graph.integers({1}), graph.integer(1));
  EXPECT_NE(graph.number(1), graph.number(1, at::kLong));
}

}  // namespace
}  // namespace osprey
