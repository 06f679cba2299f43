#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "../src/export/tflite/rules.h"
#include "export/traced_function.h"
#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/runtimes.h"

namespace osprey::tflite {
namespace {

using at::Tensor;
using osprey::testing::Function;
using osprey::testing::traced;
using ::testing::HasSubstr;

/// A file of what a function does to a map, with outputs "0", "1", ...
struct File {
  std::string bytes;
  std::vector<bool> are_maps;
};

File file_of(const Function& function, const Tensor& x) {
  Graph graph("functions");
  Value input = graph.input("x", channels_last(x.sizes().vec()));
  input.is_map = true;
  File result;
  const auto network = traced(function, x);
  for (const Value& value : write_network<Operation>(graph, *network, /*first_input=*/1, {input}, rule)) {
    graph.output(std::to_string(result.are_maps.size()).c_str(), value);
    result.are_maps.push_back(value.is_map);
  }
  result.bytes = graph.file();
  return result;
}

/// Each operation that there is a rule for, in each form that a rule tells apart. x is [2, 3, 8, 9].
std::vector<Tensor> every_operation(const Tensor& x) {
  const Tensor weights = at::linspace(-1, 1, 6 * 3 * 3 * 3).view({6, 3, 3, 3}),
               of_one = at::linspace(-1, 1, 12).view({4, 3, 1, 1}),
               depthwise = at::linspace(-1, 1, 54).view({6, 1, 3, 3}), of_channels = at::linspace(0.5, 2, 3),
               row = at::linspace(-1, 1, 9), of_each = of_channels.view({3, 1, 1});
  const Tensor scales = [] {  // written down, as those of networks are
    const at::tracer::impl::NoTracerDispatchMode not_traced;
    return at::linspace(0.003, 0.009, 6);
  }();
  const std::vector<Tensor> knots = at::linspace(0.5, 1.5, 3).unbind();
  std::vector<Tensor> result{
      at::conv2d(x, weights, {}, 2, 1),
      at::conv2d(x, weights, at::ones({6}), 1, 1),
      at::conv2d(x, weights, {}, 1, {1, 0}),
      at::conv2d(at::constant_pad_nd(x, {0, 1, 0, 1}), weights, {}, 2),
      at::conv2d(at::constant_pad_nd(x, {1, 1, 0, 1}), weights, {}, 2),
      at::conv2d(at::constant_pad_nd(x, {1, 1, 1, 1}), weights, {}, 2, 1),
      at::conv2d(at::constant_pad_nd(x, {1, 1, 1, 1}, 0.5), weights, {}, 2),
      at::conv2d(x, of_one, {}, 2),
      at::conv2d(x, depthwise, {}, 1, {2, 1}, {2, 1}, /*groups=*/3),
      at::conv2d(at::cat({x, x * 2}, 1), at::linspace(-1, 1, 4 * 3 * 9).view({4, 3, 3, 3}), {}, 1, 1, 1, /*groups=*/2),
      at::conv2d(at::constant_pad_nd(x, {0, 0, 0, 0, 0, 1}), at::linspace(-1, 1, 24).view({6, 4, 1, 1})),
      at::conv2d(at::constant_pad_nd(x, {1, 1, 1, 1, 1, 0}), at::linspace(-1, 1, 36).view({4, 1, 3, 3}), {}, 1,
                 at::IntArrayRef{0, 0}, 1, /*groups=*/4),
      at::relu(at::conv2d(x, weights, {}, 1, 1)),
      at::hardtanh(at::conv2d(x, depthwise, {}, 1, 1, 1, 3), 0, 6),
      at::batch_norm(x, of_channels, of_channels - 1, of_channels, of_channels, false, 0.1, 1e-3, false),
      at::batch_norm(x, {}, {}, of_channels, of_channels, false, 0.1, 0.5, false),
      at::max_pool2d(x, 3, 2, 1),
      at::max_pool2d(x, 3, 1, 1),
      at::max_pool2d(x, 2, 2, 0, 1, /*ceil_mode=*/true),
      at::max_pool2d(x, {2, 3}),
      at::max_pool2d(at::constant_pad_nd(x, {0, 1, 0, 1}, -INFINITY), 3, 2),
      at::avg_pool2d(x, 3, 1, 1, false, /*count_include_pad=*/false),
      at::avg_pool2d(x, 3, 2, 1),
      at::avg_pool2d(x, 2),
      x.mean({2, 3}, true),
      x.mean({2, 3}),
      x.mean(-1),
      at::upsample_nearest2d(x, {16, 27}),
      at::upsample_nearest2d(x, {11, 20}),
      at::upsample_nearest2d(x, {13, 11}, 1.7, 1.3),
      at::upsample_nearest2d(x, {16, 18}, 2.0, 2.0),
      at::constant_pad_nd(x, {1, 2, 3, 0}, 0.5),
      at::constant_pad_nd(x.mean({2, 3}), {1, 2}),
      at::relu(x),
      at::sigmoid(x),
      at::silu(x),
      at::hardtanh(x, -0.5, 0.7),
      at::hardtanh(4 * x, 0, 6),
      at::hardswish(4 * x),
      at::hardsigmoid(4 * x),
      at::softmax(x, 1),
      at::softmax(x.flatten(2), -1),
      x + row,
      x + of_each,
      x + 2,
      at::relu(x + of_each),
      x - row,
      at::rsub(x, 1),
      x * 1.5,
      x * x.mean({2, 3}, true),
      x * knots[1] + x * knots[2],
      x / of_each,
      at::exp(x),
      at::square(x),
      at::minimum(x, of_each),
      at::maximum(x, row),
      x.clamp(-0.3, 0.4),
      x.clamp_min(0.2),
      x.clamp_max(0.2),
      at::cat({x, x * 2}, 1),
      at::cat({x, x * 2}, -2),
      at::cat({x.flatten(1), x.flatten(1)}, 1),
      x.permute({0, 2, 3, 1}),
      x.permute({0, 2, 3, 1}).reshape({2, -1, 3}),
      x.permute({0, 2, 3, 1}).permute({0, 3, 1, 2}) + x,
      x.permute({0, 3, 1, 2}),
      x.narrow(-1, 2, 3),
      x.narrow(1, 1, 2),
      x.reshape({2, 3, -1}),
      x.view({6, 72}),
      x.mean({2, 3}, true).flatten(1),
      x.unsqueeze(-1),
      x.slice(2, 1, 2).squeeze(2),
      x.slice(3, 1, -2, 3),
      x.slice(2, 0, c10::nullopt, 2),
      x.permute({0, 2, 3, 1}).contiguous(),
      x.clone() + 1,
      x.detach() + 1,
      x.to(at::kFloat, false, /*copy=*/true),
      at::fake_quantize_per_tensor_affine(x, 0.013, 40, 0, 255),
      at::conv2d(x, at::fake_quantize_per_tensor_affine(depthwise, 0.007, 120, 1, 255), {}, 1, 1, 1, /*groups=*/3),
      at::conv2d(x, at::fake_quantize_per_channel_affine(depthwise, scales, at::zeros({6}, at::kInt), 0, -127, 127), {},
                 1, 1, 1, /*groups=*/3),
  };
  Tensor changed = x * 2;
  changed.mul_(of_each).add_(1).relu_();
  result.push_back(changed);
  const Tensor read_twice = at::conv2d(x, weights, {}, 1, 1);
  result.push_back(at::relu(read_twice));
  result.push_back(read_twice);
  const Tensor by_another_name = at::conv2d(x, weights, {}, 1, 1);
  result.push_back(at::relu(by_another_name.detach()));
  result.push_back(at::hardtanh(by_another_name.permute({0, 2, 3, 1}), 0, 6));
  result.push_back(at::fake_quantize_per_tensor_affine(by_another_name.view({2, 6, 8, 9}), 0.02, 128, 0, 255));
  result.push_back(by_another_name * 2);
  return result;
}

Tensor example() {
  at::manual_seed(3);
  return at::randn({2, 3, 8, 9});
}

TEST(TfliteRules, GiveWhatLibtorchGives) {
  if (!osprey::testing::has_tflite_runtime()) GTEST_SKIP() << osprey::testing::kNoTfliteRuntime;
  const Tensor x = example();
  const std::vector<Tensor> expected = every_operation(x);
  const File file = file_of(every_operation, x);
  const auto found = osprey::testing::run_tflite(file.bytes, {{"x", x.permute({0, 2, 3, 1})}});
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string name = std::to_string(i);
    osprey::testing::expect_close(found.at(name), file.are_maps[i] ? expected[i].permute({0, 2, 3, 1}) : expected[i],
                                  1e-5, 1e-5, "result " + name);
  }
}

TEST(TfliteRules, AreAllTried) {
  const auto tried = osprey::testing::operations_of(*traced(every_operation, example()));
  for (const std::string_view name : rules()) EXPECT_TRUE(tried.contains(name)) << name;
}

void expect_refused(const Function& function, const std::string& why) {
  EXPECT_THAT([&] { file_of(function, example()); }, ::testing::ThrowsMessage<ConfigError>(HasSubstr(why)));
}

TEST(TfliteRules, WhatTheFormatDoesNotHoldIsNamed) {
  const auto alone = [](Tensor (*function)(const Tensor&)) -> Function {
    return [=](const Tensor& x) { return std::vector{function(x)}; };
  };
  expect_refused(alone([](const Tensor& x) { return at::erfinv(x); }), "aten::erfinv");
  expect_refused(alone([](const Tensor& x) { return x.chunk(3, 1)[0]; }), "aten::chunk");
  expect_refused(alone([](const Tensor& x) {
                   return at::conv_transpose2d(x, at::ones({3, 2, 2, 2}));
                 }),
                 "directions exchanged");
  expect_refused(alone([](const Tensor& x) { return at::conv1d(x.flatten(2), at::ones({2, 3, 3})); }), "dimensions");
  expect_refused(alone([](const Tensor& x) { return at::avg_pool2d(x, 2, 2, 0, false, true, /*divisor=*/3); }),
                 "divisor");
  expect_refused(alone([](const Tensor& x) { return at::avg_pool2d(x, 3, 2, 1, false, false); }), "not SAME");
  expect_refused(alone([](const Tensor& x) { return at::avg_pool2d(x, 2, 2, 0, /*ceil_mode=*/true); }), "hangs over");
  expect_refused(alone([](const Tensor& x) { return at::max_pool2d(x, 2, 1, 0, 2); }), "dilation");
  expect_refused(alone([](const Tensor& x) { return at::add(x, x, 0.5); }), "a factor");
  expect_refused(alone([](const Tensor& x) { return at::div(x, 0.3, "floor"); }), "rounding");
  expect_refused(alone([](const Tensor& x) { return x.to(at::kDouble); }), "another type");
  expect_refused(alone([](const Tensor& x) { return at::softmax(x, 2); }), "than the last");
  expect_refused(alone([](const Tensor& x) { return at::constant_pad_nd(x, {0, -1}); }), "fewer than no");
  expect_refused(alone([](const Tensor& x) { return x.mean(); }), "all dimensions");
  expect_refused(alone([](const Tensor& x) { return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-3, false); }),
                 "statistics");
  expect_refused(alone([](const Tensor& x) {
                   return at::cat({x, x.permute({0, 2, 3, 1}).reshape({2, 3, 8, 9})}, 1);
                 }),
                 "maps and others");
}

/// The versions of the operators of a file, by their names.
std::map<std::string, int32_t> versions(const std::string& file) {
  const auto model = std::unique_ptr<ModelT>(GetModel(file.data())->UnPack());
  std::map<std::string, int32_t> result;
  for (const auto& code : model->operator_codes) result[EnumNameBuiltinOperator(code->builtin_code)] = code->version;
  return result;
}

TEST(TfliteFile, NamesTheVersionsOfItsOperatorsAndHoldsNoOthers) {
  const auto of = [](const Function& function) { return versions(file_of(function, example()).bytes); };
  const auto found = of([](const Tensor& x) {
    const Tensor unused = at::exp(x), groups = at::ones({6, 1, 3, 3});
    return std::vector{at::conv2d(at::constant_pad_nd(x, {1, 1, 0, 1}), groups, {}, 2, at::IntArrayRef{0, 0}, 1, 3),
                       x.unsqueeze(-1).slice(1, 0, 2)};
  });
  EXPECT_THAT(found,
              ::testing::UnorderedElementsAre(::testing::Pair("DEPTHWISE_CONV_2D", 1), ::testing::Pair("TRANSPOSE", 1),
                                              ::testing::Pair("RESHAPE", 1), ::testing::Pair("STRIDED_SLICE", 4)))
      << "neither EXP nor the PAD that is part of the convolution";
  EXPECT_EQ(of([](const Tensor& x) {
              return std::vector{at::conv2d(x, at::ones({6, 1, 3, 3}), {}, 1, 2, 2, 3)};
            }).at("DEPTHWISE_CONV_2D"),
            2)
      << "dilated";
}

/// A network as one that was trained for 8 bits: what is rounded goes through all that computes with numbers.
/// By channels: whether the weights of each have a range of their own.
class Rounded : public ::testing::TestWithParam<bool> {
 protected:
  static bool by_channels() { return GetParam(); }
  static TensorType type() { return by_channels() ? TensorType_INT8 : TensorType_UINT8; }

  static Tensor weights(const Tensor& values) {
    if (!by_channels()) return at::fake_quantize_per_tensor_affine(values, 0.009, 117, 1, 255);
    const int64_t channels = values.size(0);
    const Tensor scales = [channels] {
      const at::tracer::impl::NoTracerDispatchMode not_traced;
      return at::linspace(0.008, 0.012, channels);
    }();
    return at::fake_quantize_per_channel_affine(values, scales, at::zeros({channels}, at::kInt), 0, -127, 127);
  }
  static Tensor rounded(const Tensor& x, double scale, int64_t zero) {
    return at::fake_quantize_per_tensor_affine(x, scale, zero, 0, 255);
  }

  static std::vector<Tensor> network(const Tensor& x) {
    Tensor y = at::conv2d(at::constant_pad_nd(x, {1, 1, 1, 1}), weights(at::linspace(-1, 1, 6 * 27).view({6, 3, 3, 3})),
                          at::linspace(-1, 1, 6), 2);
    const Tensor first = rounded(at::hardtanh(y, 0, 6), 6. / 255, 0);
    y = at::conv2d(at::constant_pad_nd(first, {1, 1, 1, 1}), weights(at::linspace(-0.7, 1, 54).view({6, 1, 3, 3})), {},
                   1, at::IntArrayRef{0, 0}, 1, /*groups=*/6);
    const Tensor second = rounded(y, kStep, 100);
    const Tensor sum = rounded(at::relu(first + second), kStep, 0);
    const Tensor pooled = at::max_pool2d(at::upsample_nearest2d(sum, {8, 10}), 2, 2);
    return {rounded(at::conv2d(pooled, weights(at::linspace(1, -1, 24).view({4, 6, 1, 1}))), kStep, 128)};
  }

  static constexpr double kStep = 0.05;
};

TEST_P(Rounded, NetworksComputeWithNumbers) {
  if (!osprey::testing::has_tflite_runtime()) GTEST_SKIP() << osprey::testing::kNoTfliteRuntime;
  at::manual_seed(5);
  const Tensor pixels = at::randint(0, 256, {1, 3, 8, 10}, at::kByte),
               x = (pixels.to(at::kFloat) - 128).mul(static_cast<float>(2. / 255));
  const Tensor expected = network(x)[0];

  Graph graph("rounded");
  graph.set_type_of_numbers(type());
  const Value numbers = graph.input("x", channels_last(x.sizes().vec()));
  graph.set_steps(numbers, type(), {.scales = {2.f / 255}, .zero = by_channels() ? 0 : 128});
  Value picture = graph.add(BuiltinOperator_DEQUANTIZE, {numbers}, channels_last(x.sizes().vec()));
  picture.is_map = true;
  const auto traced_network = traced(network, x);
  graph.output("y", write_network<Operation>(graph, *traced_network, /*first_input=*/1, {picture}, rule)[0]);
  const std::string file = graph.file();

  const auto model = std::unique_ptr<ModelT>(GetModel(file.data())->UnPack());
  std::multiset<BuiltinOperator> kinds;
  for (const auto& made : model->subgraphs[0]->operators)
    kinds.insert(model->operator_codes[made->opcode_index]->builtin_code);
  EXPECT_EQ(kinds.count(BuiltinOperator_DEQUANTIZE), 1) << "of the result alone";
  EXPECT_EQ(kinds.count(BuiltinOperator_PAD), 1) << "the other is that of the convolution";
  EXPECT_EQ(kinds.size(), 8) << "three convolutions, a sum, a larger map and the best of it beside them";
  const std::map<std::string, int32_t> needed = versions(file);
  EXPECT_EQ(needed.at("CONV_2D"), by_channels() ? 3 : 1);
  EXPECT_EQ(needed.at("ADD"), by_channels() ? 2 : 1);
  EXPECT_EQ(needed.at("DEQUANTIZE"), by_channels() ? 2 : 1);

  const Tensor input = by_channels() ? (pixels.to(at::kInt) - 128).to(at::kChar) : pixels;
  const Tensor found = osprey::testing::run_tflite(file, {{"x", input.permute({0, 2, 3, 1})}}).at("y");
  const Tensor steps_off = (found - expected.permute({0, 2, 3, 1})).div(kStep).abs();
  EXPECT_GT(expected.std().item<float>(), 5 * kStep);
  EXPECT_LE(steps_off.max().item<float>(), 2.01) << "what lies between two numbers falls to either side, twice";
  EXPECT_LE(steps_off.mean().item<float>(), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Ranges, Rounded, ::testing::Bool(),
                         [](const auto& by_channels) { return by_channels.param ? "OfChannels" : "OfLayers"; });

}  // namespace
}  // namespace osprey::tflite
