#include "support/onnx.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <functional>
#include <set>

#include "../src/export/onnx/network.h"
#include "../src/export/onnx/rules.h"
#include "osprey/base/error.h"
#include "support/golden.h"

namespace osprey {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using Function = std::function<std::vector<Tensor>(const Tensor&)>;

/// What a function does to a tensor, as `net` of a served module does it.
std::shared_ptr<torch::jit::Graph> traced(const Function& function, const Tensor& x) {
  const at::NoGradGuard no_gradients;
  const auto stack = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    std::vector<c10::IValue> results;
    for (const Tensor& result : function(inputs.at(0).toTensor())) results.emplace_back(result);
    return {c10::ivalue::Tuple::create(std::move(results))};
  };
  const auto trace = torch::jit::tracer::trace(
      {x.clone()}, stack, [](const Tensor&) { return ""; }, /*strict=*/true, /*force_outplace=*/false);
  trace.first->graph->insertInput(0, "self");
  return trace.first->graph;
}

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
      x.mean(-1),
      at::upsample_nearest2d(x, {16, 27}),
      at::upsample_nearest2d(x, {11, 20}),
      at::upsample_nearest2d(x, {5, 4}),
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
      at::square(x),
      at::minimum(x, row),
      at::maximum(x, row),
      x.clamp(-0.3, 0.4),
      x.clamp(c10::nullopt, 0.4),
      count.clamp(-3, 4),
      count.clamp_min(2),
      count + 1,
      at::where(at::logical_and(positive, small), x, row),
      at::where(at::logical_not(positive), x, at::zeros({})),
      at::where(count < 3, x, row),
      x.masked_fill(positive, -2),
      at::searchsorted(knots, x.contiguous()),
      knots.take(count.clamp(0, 4)),
      (1 - x) * 2,
      at::full_like(x, 3) + x,
      at::cat({x, x * 2}, -2),
      at::stack({x, x * 2}, -1),
      x.permute({0, 2, 3, 1}),
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
    testing::expect_close(found.at(name), expected[i], 1e-5, 1e-5, "result " + name);
  }
}

TEST(OnnxRules, AreAllTried) {
  std::set<std::string, std::less<>> tried;
  for (const torch::jit::Node* node : traced(every_operation, example())->nodes()) {
    std::string name = node->kind().toUnqualString();
    if (name.ends_with('_')) name.pop_back();
    tried.insert(name);
  }
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
      "transposed");
  expect_refused([](const Tensor& x) { return std::vector{at::avg_pool2d(x, 2, 2, 0, false, true, /*divisor=*/3)}; },
                 "divisor");
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
  EXPECT_EQ(graph.integers({1, 2}), graph.integers({1, 2}));
  EXPECT_NE(graph.integers({1}), graph.integer(1));
  EXPECT_NE(graph.number(1), graph.number(1, at::kLong));
}

}  // namespace
}  // namespace osprey
