#include "../src/export/quantization.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <string>
#include <vector>

#include "../src/export/tflite/rules.h"
#include "export/random_networks.h"
#include "export/traced_function.h"
#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "support/runtimes.h"

namespace osprey {
namespace {

using at::Tensor;
using osprey::testing::Function;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Graph = std::shared_ptr<torch::jit::Graph>;

Tensor input_map() {
  return at::linspace(-3, 3, 2 * 3 * 8 * 8).view({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
}

Tensor convolved(const Tensor& x, int64_t channels = 4) {
  return at::conv2d(x, at::linspace(-1, 1.3, channels * x.size(1)).view({channels, x.size(1), 1, 1}));
}

/// A function's network, rounded by `ranges` numbers of ranges from -2 to 3.
Graph rounded(const Function& function, size_t ranges, std::optional<float> pixel_step = 0.01f) {
  const Graph graph = testing::traced(function, input_map());
  return quantized(*graph,
                   {.pixel_step = pixel_step, .ranges = std::vector(ranges, ValueRange{.least = -2, .largest = 3})});
}

/// The operations whose results are rounded, in their order.
std::vector<std::string> rounded_operations(const Graph& graph) {
  std::vector<std::string> result;
  for (const torch::jit::Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine) {
      const torch::jit::Node& maker = *node->input(0)->node();
      result.emplace_back(maker.kind() == c10::prim::Param ? "picture" : maker.kind().toUnqualString());
    }
  return result;
}

std::vector<Tensor> run(const Graph& graph, const Tensor& x) {
  torch::jit::Stack stack{c10::IValue(), x};
  torch::jit::InterpreterState(torch::jit::Code(graph, "network")).run(stack);
  std::vector<Tensor> result;
  for (const c10::IValue& value : stack.at(0).toTuple()->elements()) result.push_back(value.toTensor());
  return result;
}

TEST(Quantization, RoundsBehindAnActivationThatAloneReads) {
  EXPECT_THAT(rounded_operations(rounded(
                  [](const Tensor& x) {
                    const Tensor first = at::hardtanh(convolved(x), 0, 6), second = at::relu(convolved(first));
                    return std::vector{convolved(at::relu(first + second))};
                  },
                  4)),
              ElementsAre("hardtanh", "relu", "relu", "_convolution"));
  EXPECT_THAT(rounded_operations(rounded(
                  [](const Tensor& x) {
                    const Tensor map = convolved(x);
                    return std::vector{convolved(at::relu(map) + map)};
                  },
                  4)),
              ElementsAre("_convolution", "relu", "add", "_convolution"))
      << "the sum reads the map, too";
}

TEST(Quantization, LeavesWhatOnlyMovesAndWhatComesBehindTheLastConvolutions) {
  EXPECT_THAT(rounded_operations(rounded(
                  [](const Tensor& x) {
                    const Tensor map = at::max_pool2d(at::constant_pad_nd(convolved(x), {1, 1}), 2),
                                 scores = convolved(at::upsample_nearest2d(map, {8, 8}));
                    return std::vector{at::sigmoid(scores.permute({0, 2, 3, 1}).reshape({2, -1, 4})) * 2};
                  },
                  2)),
              ElementsAre("_convolution", "_convolution"));
}

TEST(Quantization, RoundsBetweenTheStepsOfActivations) {
  EXPECT_THAT(
      rounded_operations(rounded(
          [](const Tensor& x) {
            const Tensor map = at::silu(convolved(x));
            const Tensor gates = at::hardsigmoid(convolved(map.mean({2, 3}, true)));
            return std::vector{convolved(map * gates)};
          },
          9)),
      ElementsAre("_convolution", "sigmoid", "mul", "mean", "_convolution", "hardtanh", "mul", "mul", "_convolution"));
}

TEST(Quantization, RoundsThePictureWhereItIsToldTo) {
  const Function network = [](const Tensor& x) {
    return std::vector{convolved(at::constant_pad_nd(x, {1, 1})), convolved(x, 5)};
  };
  EXPECT_THAT(rounded_operations(rounded(network, 2)), ElementsAre("_convolution", "_convolution"));
  EXPECT_THAT(rounded_operations(rounded(network, 3, /*pixel_step=*/{})),
              ElementsAre("picture", "_convolution", "_convolution"));
}

TEST(Quantization, LeavesWhatIsRoundedAlready) {
  EXPECT_THAT(rounded_operations(rounded(
                  [](const Tensor& x) {
                    const Tensor map = at::fake_quantize_per_tensor_affine(convolved(x), 0.1, 3, 0, 255);
                    return std::vector{convolved(map)};
                  },
                  1)),
              ElementsAre("_convolution", "_convolution"));
}

TEST(Quantization, GivesTheNumbersOf8Bits) {
  // Of the weights the largest of each channel is a number, of the map the range from -2 to 3 in 255 steps around zero.
  const Tensor x = 4 * input_map(),
               weights = at::tensor({0.5, -1.27, 0.004, 2.54, 0.013, -0.3}).view({2, 3, 1, 1}).to(at::kFloat),
               found = run(rounded([&](const Tensor&map) { return std::vector{at::conv2d(map, weights)}; }, 1), x)[0];
  const Tensor of_weights = at::tensor({0.5, -1.27, 0., 2.54, 0.02, -0.3}).view({2, 3, 1, 1}).to(at::kFloat);
  const double step = 5. / 255;
  const Tensor expected = (at::conv2d(x, of_weights) / step).round().clamp(-102, 153) * step;
  EXPECT_LE((found - expected).abs().max().item<double>(), 1.01 * step) << "what lies between falls to either side";
  EXPECT_LE((found - expected).abs().mean().item<double>(), 0.01 * step);
  EXPECT_LE((found / step - (found / step).round()).abs().max().item<double>(), 1e-3);
  EXPECT_NEAR(found.max().item<double>(), 153 * step, 1e-4) << "what is larger is the last number";
}

TEST(Quantization, WhatIsPutTogetherOrAveragedHasTheSameNumbers) {
  const Function network = [](const Tensor& x) {
    const Tensor first = at::relu(convolved(x)), second = convolved(x),
                 averages = at::avg_pool2d(first, 3, 1, 1, /*ceil_mode=*/false, /*count_include_pad=*/false),
                 others = at::cat({second, at::max_pool2d(averages, 3, 1, 1)}, 1);
    return std::vector{convolved(at::cat({others, convolved(first)}, 1))};
  };
  const Graph graph = quantized(*testing::traced(network, input_map()),
                                {.pixel_step = 0.01f, .ranges = {{0, 4}, {-2, 1}, {0, 3}, {-1, 5}, {-9, 1}}});
  EXPECT_THAT(rounded_operations(graph),
              ElementsAre("relu", "_convolution", "avg_pool2d", "_convolution", "_convolution"));
  std::vector<double> scales;
  for (const torch::jit::Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine)
      scales.push_back(torch::jit::toIValue(node->input(1))->toDouble());
  for (const size_t i : {0, 1, 2, 3}) EXPECT_NEAR(scales[i], 7. / 255, 1e-6) << "from -2 to 5, all of these";
  EXPECT_NEAR(scales[4], 10. / 255, 1e-6);
}

TEST(Quantization, GatesHaveNumbersFrom0To1) {
  const auto graph = rounded([](const Tensor& x) { return std::vector{convolved(at::sigmoid(convolved(x)))}; }, 3);
  for (const torch::jit::Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine &&
        node->input(0)->node()->kind() == c10::aten::sigmoid) {
      EXPECT_EQ(torch::jit::toIValue(node->input(1))->toDouble(), 1. / 256);
      EXPECT_EQ(torch::jit::toIValue(node->input(2))->toInt(), 0);
    }
}

/// What LiteRT makes of a rounded network: of a picture of numbers, as values 0.02 apart.
Tensor in_tflite(const Graph& network, const Tensor& numbers) {
  tflite::Graph graph("rounded");
  graph.set_type_of_numbers(tflite::TensorType_INT8);
  const tflite::Shape shape = tflite::channels_last(numbers.sizes().vec());
  const tflite::Value input = graph.input("x", shape);
  graph.set_steps(input, tflite::TensorType_INT8, {.scales = {0.02f}});
  tflite::Value values = graph.add(tflite::BuiltinOperator_DEQUANTIZE, {input}, shape);
  values.is_map = true;
  graph.output("y", write_network<tflite::Operation>(graph, *network, 1, {values}, tflite::rule).at(0));
  return testing::run_tflite(graph.file(), {{"x", numbers.permute({0, 2, 3, 1})}}).at("y").permute({0, 3, 1, 2});
}

TEST(Quantization, WhatIsNextToNothingIsRoundedAsRuntimesCanCompute) {
  if (!testing::has_tflite_runtime()) GTEST_SKIP() << testing::kNoTfliteRuntime;
  const Tensor numbers = at::arange(-96, 96, at::kInt).view({1, 3, 8, 8}).to(at::kChar),
               x = numbers.to(at::kFloat) * 0.02;
  const auto biased = [](const Tensor& map, double scale, double bias) {
    return at::conv2d(map, at::linspace(-1, 1.3, 4 * map.size(1)).view({4, map.size(1), 1, 1}) * scale,
                      at::full({4}, bias));
  };
  struct Case {
    const char* name;
    Function network;
    std::vector<ValueRange> ranges;
  };
  const ValueRange nothing{}, tiny{.least = 0, .largest = 1e-9f}, prior{.least = -5};
  for (const auto& [name, network, ranges] : std::vector<Case>{
           {"a map that is zero",
            [&](const Tensor& map) { return std::vector{biased(at::relu(biased(map, 1, -100)), 1, -4.6)}; },
            {nothing, prior}},
           {"a sum that is zero",
            [&](const Tensor& map) {
              const Tensor one = biased(map, 1, 0);
              return std::vector{biased(at::relu(one + biased(map, 1, -100)), 1, -4.6)};
            },
            {{-4, 4}, {-104, 0}, nothing, prior}},
           {"a bias beside a map of next to nothing",
            [&](const Tensor& map) { return std::vector{biased(at::relu(biased(map, 1e-9, 0)), 1, -4.6)}; },
            {tiny, prior}},
           {"a bias beside weights of next to nothing",
            [&](const Tensor& map) { return std::vector{biased(at::relu(biased(map, 1, 0)), 1e-12, -4.6)}; },
            {{0, 4}, prior}},
           {"a product that is zero",
            [&](const Tensor& map) {
              const Tensor one = at::relu(biased(map, 1, -100));
              return std::vector{biased(one * biased(map, 1, 0), 1, -4.6)};
            },
            {nothing, {-4, 4}, nothing, prior}}}) {
    SCOPED_TRACE(name);
    const Graph graph = quantized(*testing::traced(network, x), {.pixel_step = 0.02f, .ranges = ranges});
    const Tensor found = in_tflite(graph, numbers);
    const double step = 5. / 255;
    EXPECT_LE((found - run(graph, x)[0]).abs().max().item<double>(), 1.01 * step) << "to either side of a border";
    EXPECT_NEAR(found.mean().item<double>(), -4.6, step);
  }
}

Batch picture(int64_t value) {
  Batch batch;
  batch.images = at::full({1, 3, 64, 64}, value, at::kByte);
  batch.true_shapes = at::tensor({64, 64}, at::kLong).unsqueeze(0);
  return batch;
}

config::Pipeline quickstart(std::vector<std::string> changes = {}) {
  changes.insert(changes.begin(), "model.ssd.image_resizer={fixed_shape_resizer {height: 64 width: 64}}");
  return config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", changes);
}

TEST(Calibration, RangesAreTheWidestOfAllPictures) {
  const auto model = models::build_model(quickstart().root());
  const at::NoGradGuard no_gradients;
  testing::randomize(*model);
  model->eval();
  const Calibration dark = testing::calibrated(*model, {picture(0)}),
                    light = testing::calibrated(*model, {picture(255)}),
                    both = testing::calibrated(*model, {picture(255), picture(0)});
  ASSERT_EQ(both.ranges.size(), dark.ranges.size());
  EXPECT_GT(both.ranges.size(), 30) << "13 pairs of convolutions, layers behind them and heads";
  EXPECT_TRUE(both.pixel_step);
  for (size_t i = 0; i < both.ranges.size(); ++i) {
    EXPECT_EQ(both.ranges[i].least, std::min(dark.ranges[i].least, light.ranges[i].least)) << i;
    EXPECT_EQ(both.ranges[i].largest, std::max(dark.ranges[i].largest, light.ranges[i].largest)) << i;
    EXPECT_LE(both.ranges[i].least, 0) << i;
  }
  EXPECT_TRUE(std::ranges::any_of(both.ranges, [](const ValueRange& range) { return range.largest > 0.5; }));
}

TEST(Calibration, ANetworkThatWasTrainedFor8BitsIsRefused) {
  const auto model = models::build_model(quickstart({"graph_rewriter={quantization {delay: 1}}"}).root());
  model->eval();
  EXPECT_THAT(
      [&] {
        Calibrator(*model, {64, 64});
      },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("was trained for 8 bits")));
  const auto by_channels =
      models::build_model(quickstart({"graph_rewriter={quantization {delay: 1 weights_per_channel: true}}"}).root());
  by_channels->eval();
  EXPECT_THAT(
      [&] {
        Calibrator(*by_channels, {64, 64});
      },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("was trained for 8 bits")));
}

}  // namespace
}  // namespace osprey
