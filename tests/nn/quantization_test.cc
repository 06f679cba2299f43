#include "osprey/nn/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <map>

#include "../src/nn/autocast.h"
#include "osprey/kernels/device.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/inverted_residual.h"
#include "osprey/nn/separable_convolution.h"
#include "support/golden.h"

namespace osprey::nn {
namespace {

using ::osprey::testing::expect_close;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

double value_of(const torch::nn::Module& module, const std::string& name) {
  return module.named_buffers()[name].item<double>();
}

void commit_ranges(const torch::nn::Module& module) {
  std::vector<FakeQuantize*> layers;
  for (const auto& child : module.modules(/*include_self=*/false))
    if (auto* layer = dynamic_cast<FakeQuantize*>(child.get())) layers.push_back(layer);
  FakeQuantize::commit(layers);
}

FakeQuantizeOptions weights_after(int64_t delay) {
  return {.range = FakeQuantizeOptions::Range::kLast, .narrow = true, .delay = delay};
}

TEST(FakeQuantize, EvaluationRoundsByTheAveragesOfTheRange) {
  FakeQuantize quantize;
  quantize.eval();
  const double step = 6.0 / 255;
  expect_close(quantize.forward(at::tensor({0.0f, 1.1f, 7.0f, -1.0f, 5.999f})),
               at::tensor({0.0f, static_cast<float>(std::round(1.1 / step) * step), 6.0f, 0.0f, 6.0f}), 0, 1e-6,
               "rounded");
}

TEST(FakeQuantize, TrainingRoundsByTheRangeOfTheBatchesSoFarAndKeepsItAside) {
  FakeQuantize quantize;
  const auto largest = [&](float of_batch) {
    return quantize.forward(at::tensor({0.0f, of_batch})).max().item<double>();
  };
  EXPECT_NEAR(largest(5), 5, 1e-3) << "the first batch has all the say";
  EXPECT_EQ(value_of(quantize, "max"), 6) << "not before the commit";
  quantize.discard_statistics();
  EXPECT_NEAR(largest(5), 5, 1e-3);
  FakeQuantize::commit({&quantize}, at::zeros({}, at::kBool));
  EXPECT_EQ(value_of(quantize, "max"), 6) << "nor where the step is thrown away";
  EXPECT_EQ(value_of(quantize, "local_step"), 0);
  EXPECT_NEAR(largest(5), 5, 1e-3);
  FakeQuantize::commit({&quantize});
  EXPECT_NEAR(value_of(quantize, "max"), 5, 1e-3);
  EXPECT_EQ(value_of(quantize, "local_step"), 1);
  EXPECT_NEAR(largest(3), 3, 4.0 / 255) << "rounded between 0 and 4, the mean of both";
  EXPECT_NEAR(largest(5), 5, 1e-3) << "a pass does not see the one before it";
  quantize.discard_statistics();
  EXPECT_NEAR(largest(3), 3, 4.0 / 255);
  FakeQuantize::commit({&quantize});
  EXPECT_NEAR(value_of(quantize, "max"), (0.999 * 5 + 3) / 1.999, 1e-3);
  EXPECT_EQ(value_of(quantize, "min"), 0);
}

TEST(FakeQuantize, SeveralPassesCountAsOneByTheMeanOfTheirRanges) {
  FakeQuantize quantize;
  for (const float largest : {2.0f, 4.0f}) quantize.forward(at::tensor({-1.0f, largest}));
  FakeQuantize::commit({&quantize});
  EXPECT_NEAR(value_of(quantize, "max"), 3, 1e-3);
  EXPECT_EQ(value_of(quantize, "local_step"), 1);
}

TEST(FakeQuantize, RangesOfWeightsAreThoseOfTheLastStep) {
  FakeQuantize quantize(weights_after(0));
  for (const float largest : {5.0f, 2.0f}) {
    quantize.forward(at::tensor({-1.0f, largest}));
    FakeQuantize::commit({&quantize});
    EXPECT_EQ(value_of(quantize, "max"), largest);
    EXPECT_EQ(value_of(quantize, "min"), -1);
  }
}

TEST(FakeQuantize, NarrowOnesHaveAsManyNumbersBelowZeroAsAboveIt) {
  FakeQuantize quantize(weights_after(0));
  const at::Tensor x = at::linspace(-1, 1, 4001), y = quantize.forward(x);
  EXPECT_EQ(std::get<0>(at::_unique2(y)).numel(), 255);
  expect_close(y, -y.flip(0), 0, 1e-6, "mirrored");
  expect_close(y, x, 0, 1.001 / 254, "no more than half a step off");
}

/// TensorFlow 2.15: fake_quant_with_min_max_vars(x, -0.7, 1.9, 8, narrow) and its gradients, whose range is moved so
/// that zero is one of the numbers.
TEST(FakeQuantize, EqualsTensorFlowsAtTheEndsOfTheRange) {
  FakeQuantize quantize(weights_after(0));
  const at::Tensor x =
      at::tensor({-0.7f, -0.699f, -0.35f, 0.0f, 0.004f, 0.3f, 1.0f, 1.893f, 1.898f, 1.9f}).requires_grad_();
  const at::Tensor y = quantize.forward(x);
  expect_close(y.detach(),
               at::tensor({-0.696062982f, -0.696062982f, -0.348031491f, 0.0f, 0.0f, 0.296850383f, 1.00314963f,
                           1.89370084f, 1.89370084f, 1.90393698f}),
               0, 1e-6, "values");
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(
      at::tensor({0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f})));
}

TEST(FakeQuantize, TakesNoteOfRangesBeforeItsDelayAndRoundsFromThenOn) {
  FakeQuantize quantize(weights_after(3));
  const at::Tensor x = at::tensor({-1.0f, 0.1234f, 1.0f});
  for (int step = 1; step <= 4; ++step) {
    EXPECT_EQ(quantize.is_waiting(), step < 3) << step;
    EXPECT_EQ(quantize.forward(x).equal(x), step < 3) << step;
    FakeQuantize::commit({&quantize});
  }
  const kernels::device::Emulation emulation;  // where a look at the step would be a wait, the same is computed
  FakeQuantize computed(weights_after(3));
  const at::Tensor given = at::tensor({-1.0f, 0.1234f, 1.0f}).requires_grad_();
  for (int step = 1; step <= 4; ++step) {
    EXPECT_FALSE(computed.is_waiting());
    const at::Tensor y = computed.forward(given);
    EXPECT_EQ(y.equal(given), step < 3) << step;
    EXPECT_EQ(torch::autograd::grad({y.sum()}, {given})[0].sum().item<double>(), 3);
    FakeQuantize::commit({&computed});
  }
  FakeQuantize waiting(weights_after(3));
  waiting.eval();
  EXPECT_FALSE(waiting.forward(x).equal(x)) << "evaluation always rounds";
}

FakeQuantizeOptions channels_after(int64_t channels, int64_t delay) {
  FakeQuantizeOptions result = weights_after(delay);
  result.channels = channels;
  return result;
}

TEST(FakeQuantize, OfChannelsRoundsEachByItsOwnRange) {
  FakeQuantize quantize(channels_after(4, 0));
  at::manual_seed(8);
  const at::Tensor sizes = at::tensor({1000.0f, 1.0f, 0.001f, 0.0f}).view({4, 1, 1, 1}),
                   x = (sizes * at::randn({4, 4, 3, 3})).requires_grad_();
  const at::Tensor y = quantize.forward(x), largest = x.detach().abs().amax({1, 2, 3});
  for (int64_t c = 0; c < 4; ++c) {
    // The third has no smaller steps than a channel of a ten-thousandth of the largest weight; 0.001 is less.
    const double own = largest[c].item<double>(), range = std::max(own, 1e-4 * largest.max().item<double>());
    expect_close(y[c].detach(), x[c].detach(), 0, 0.501 * range / 127, "no more than half a step off");
    if (own == range)
      expect_close(y[c].detach().abs().max(), largest[c], 0, 1e-6 * range, "the largest is one of the numbers");
  }
  EXPECT_GT((y[2] - x[2]).abs().max().item<double>(), largest[2].item<double>() / 127);
  EXPECT_LE(std::get<0>(at::_unique2(y[0])).numel(), 255);
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(at::ones_like(x)));

  FakeQuantize other(weights_after(0));  // ranges of different numbers of channels are taken over together
  other.forward(at::tensor({-2.0f, 3.0f}));
  FakeQuantize::commit({&quantize, &other});
  EXPECT_TRUE(quantize.named_buffers()["max"].equal(largest));
  EXPECT_TRUE(quantize.named_buffers()["min"].equal(-largest));
  EXPECT_EQ(value_of(quantize, "local_step"), 1);
  EXPECT_EQ(value_of(other, "min"), -2);
  EXPECT_EQ(value_of(other, "max"), 3);
  quantize.eval();
  EXPECT_TRUE(quantize.forward(x).equal(y));
  EXPECT_TRUE(quantize.forward(x.detach() / 0)[3].isnan().all().item<bool>()) << "what is no number stays so";

  quantize.train();
  quantize.forward(2 * x.detach());
  FakeQuantize::commit({&quantize}, at::zeros({}, at::kBool));
  EXPECT_TRUE(quantize.named_buffers()["max"].equal(largest)) << "a step that is thrown away leaves no trace";
  EXPECT_FALSE(quantize.forward(x.detach() / 0).isfinite().all().item<bool>());
}

TEST(FakeQuantize, OfChannelsWaitsForItsDelay) {
  const at::Tensor x = at::tensor({-1.0f, 0.1234f, 1.0f, 30.0f}).view({2, 2});
  const auto expect_delay = [&] {
    FakeQuantize quantize(channels_after(2, 3));
    for (int step = 1; step <= 4; ++step) {
      EXPECT_EQ(quantize.forward(x).equal(x), step < 3) << step;
      FakeQuantize::commit({&quantize});
    }
  };
  expect_delay();
  const kernels::device::Emulation emulation;  // where a look at the step would be a wait, the same is computed
  expect_delay();
}

TEST(FakeQuantize, PassesGradientsOnAndTakesMapsOfZeros) {
  FakeQuantize quantize;
  quantize.eval();
  const at::Tensor x = at::tensor({-1.0f, 0.0f, 3.0f, 5.99f, 6.01f, 9.0f, 1.0f}).requires_grad_();
  const at::Tensor gradient = torch::autograd::grad({quantize.forward(x).sum()}, {x})[0];
  EXPECT_TRUE(gradient.equal(at::tensor({0.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f, 1.0f}))) << "where values are inside";
  quantize.train();
  EXPECT_TRUE(quantize.forward(at::zeros({1, 2, 3, 3})).equal(at::zeros({1, 2, 3, 3})));
}

TEST(FakeQuantize, DoesNotHideWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    FakeQuantize quantize;
    EXPECT_FALSE(quantize.forward(at::tensor({1.0f, value})).isfinite().all().item<bool>());
    FakeQuantize::commit({&quantize}, at::zeros({}, at::kBool));
    EXPECT_EQ(value_of(quantize, "max"), 6) << "a step that is thrown away leaves no trace";
  }
}

TEST(FakeQuantize, TakesTensorsOfAnyShapeAndOrder) {
  at::manual_seed(7);
  FakeQuantize quantize;
  quantize.eval();
  const std::vector<int64_t> shapes[] = {{7}, {2, 3}, {1, 16, 1, 5}, {3, 16, 2, 5}, {4, 3, 3, 3}, {2, 2, 2, 2, 2}, {}};
  for (const std::vector<int64_t>& sizes : shapes) {
    const at::Tensor x = (6 * at::rand(sizes)).requires_grad_(), y = quantize.forward(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    expect_close(y.detach(), x.detach(), 0, 0.501 * 6 / 255, "no more than half a step off");
    const at::Tensor slopes = at::rand(sizes);
    EXPECT_TRUE(torch::autograd::grad({(y * slopes).sum()}, {x})[0].equal(slopes));
  }
  EXPECT_EQ(quantize.forward(at::zeros({0, 4, 2, 2})).numel(), 0);
}

Hyperparams rounded_from(std::optional<int64_t> step) {
  Hyperparams result;
  result.batch_norm = BatchNormOptions{.decay = 0.9, .scale = true};
  if (step) result.quantization = Quantization{.delay = *step};
  return result;
}

const at::Tensor& picture() {
  at::manual_seed(3);
  static const at::Tensor result = at::randn({2, 4, 6, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  return result;
}

/// Values as after some steps of training.
void season(torch::nn::Module& module) {
  at::manual_seed(4);
  const at::NoGradGuard no_gradients;
  for (at::Tensor& parameter : module.parameters())
    parameter.copy_(parameter.dim() == 4 ? 0.3 * at::randn_like(parameter) : 0.5 + at::rand_like(parameter));
  for (const auto& item : module.named_buffers())
    if (item.key().find("moving_") != std::string::npos) item.value().add_(at::rand_like(item.value()));
}

std::shared_ptr<ConvBlock> seasoned(const ConvBlockOptions& options, const Hyperparams& hyperparams) {
  auto block = std::make_shared<ConvBlock>(options, hyperparams);
  season(*block);
  return block;
}

const ConvBlockOptions kConvolution{.in_depth = 4, .out_depth = 8, .kernel = {3, 3}};

TEST(QuantizedBlocks, AreFloatOnesBeforeTheirDelay) {
  const auto rounded = seasoned(kConvolution, rounded_from(7)), floats = seasoned(kConvolution, rounded_from({}));
  EXPECT_TRUE(rounded->is_quantized());
  EXPECT_FALSE(floats->is_quantized());
  expect_close(rounded->forward(picture()), floats->forward(picture()), 1e-6, 1e-6, "maps");
}

TEST(QuantizedBlocks, HaveTheGradientsOfFloatOnesBeforeTheirDelay) {
  const std::vector<ConvBlockOptions> chain = {{.in_depth = 4, .out_depth = 8, .kernel = {3, 3}, .stride = 2},
                                               {.in_depth = 8, .kernel = {3, 3}, .depthwise = true},
                                               {.in_depth = 8, .out_depth = 16}};
  const auto gradients = [&](std::optional<int64_t> delay) {
    at::manual_seed(3);
    FeatureMap map = at::randn({2, 4, 34, 30}).contiguous(at::MemoryFormat::ChannelsLast);
    std::vector<at::Tensor> parameters;
    for (const ConvBlockOptions& options : chain) {
      const auto block = seasoned(options, rounded_from(delay));
      for (const at::Tensor& parameter : block->parameters()) parameters.push_back(parameter);
      map = block->forward(map);
    }
    const at::Tensor y = map.values();
    at::manual_seed(6);
    return torch::autograd::grad({(y * at::randn_like(y)).sum()}, parameters);
  };
  const auto ours = gradients(7), theirs = gradients({});
  for (size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], theirs[i], 1e-3, 1e-3, std::to_string(i));
}

at::Tensor of_channels(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

at::Tensor rounded_map(const at::Tensor& y) { return FakeQuantize().forward(y); }
at::Tensor rounded_weights(const at::Tensor& w) { return FakeQuantize(weights_after(0)).forward(w); }

/// Batch norm in the weights, one operation after the other.
at::Tensor plainly(const ConvBlock& block, const at::Tensor& x, int64_t stride = 1) {
  const auto parameters = block.named_parameters(), buffers = block.named_buffers();
  const bool depthwise = parameters.contains("depthwise_weights");
  const at::Tensor weights = parameters[depthwise ? "depthwise_weights" : "weights"],
                   gamma = parameters["BatchNorm.gamma"], beta = parameters["BatchNorm.beta"],
                   moving = at::sqrt(buffers["BatchNorm.moving_variance"] + 0.001);
  const auto convolved = [&](const at::Tensor& kernels) {
    return at::conv2d(x, kernels, {}, stride, kernels.size(2) / 2, 1, depthwise ? x.size(1) : 1);
  };
  const at::Tensor rounded = convolved(rounded_weights(weights * (gamma / moving).view({-1, 1, 1, 1})));
  if (!block.is_training())
    return at::clamp(rounded + of_channels(beta - buffers["BatchNorm.moving_mean"] * gamma / moving), 0, 6);
  const auto [variance, mean] = at::var_mean(convolved(weights), {0, 2, 3}, /*unbiased=*/false);
  const at::Tensor deviation = at::sqrt(variance + 0.001);
  return at::clamp(rounded * of_channels(moving / deviation) + of_channels(beta - mean * gamma / deviation), 0, 6);
}

void expect_rounded(ConvBlock& block, const at::Tensor& given, int64_t stride = 1) {
  const at::Tensor x = given.clone().requires_grad_();
  const at::Tensor ours = block.forward(x), theirs = rounded_map(plainly(block, x, stride));
  // A value beside the border of two numbers may fall to either side.
  EXPECT_LT((ours - theirs).abs().gt(1e-4).sum().item<int64_t>(), 3);

  at::manual_seed(6);
  const at::Tensor slopes = at::randn_like(ours);
  std::vector<at::Tensor> inputs = block.parameters();
  inputs.push_back(x);
  const auto of_ours = torch::autograd::grad({(ours * slopes).sum()}, inputs),
             of_theirs = torch::autograd::grad({(theirs * slopes).sum()}, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(of_ours[i], of_theirs[i], 1e-3, 1e-3, "gradient " + std::to_string(i));
}

/// The statistics of the batch are gathered by the convolution that they are of.
TEST(QuantizedBlocks, AreThoseOfConvolutionsThatGatherTheirStatistics) {
  const std::vector<ConvBlockOptions> all = {{.in_depth = 16, .kernel = {3, 3}, .depthwise = true},
                                             {.in_depth = 16, .out_depth = 32},
                                             {.in_depth = 16, .out_depth = 32, .kernel = {3, 3}},
                                             {.in_depth = 4, .out_depth = 32, .kernel = {3, 3}, .stride = 2}};
  for (const ConvBlockOptions& options : all) {
    SCOPED_TRACE(::testing::Message() << options.in_depth << " to " << options.out_depth << ", " << options.kernel[0]);
    const auto block = seasoned(options, rounded_from(0));
    at::manual_seed(5);
    const at::Tensor x = at::randn({2, options.in_depth, 9, 7}).contiguous(at::MemoryFormat::ChannelsLast);
    const int64_t width = options.kernel[0] / 2;
    ASSERT_TRUE(kernels::takes_normalized_convolution(x, block->parameters()[0],
                                                      {options.stride, {width, width, width, width}}));
    expect_rounded(*block, x, options.stride);
  }
}

TEST(QuantizedBlocks, RoundTheWeightsWithTheBatchNormInThemAndTheResult) {
  const auto block = seasoned(kConvolution, rounded_from(0));
  expect_rounded(*block, picture());
  commit_ranges(*block);
  EXPECT_GT(value_of(*block, "act_quant.max"), 0);
  EXPECT_LT(value_of(*block, "weights_quant.min"), 0);
  block->eval();
  const at::NoGradGuard no_gradients;
  const at::Tensor evaluated = plainly(*block, picture());
  const double last = value_of(*block, "act_quant.max");
  expect_close(block->forward(picture()), evaluated.clamp_max(last), 0, 0.51 * last / 255, "evaluation");
}

TEST(QuantizedBlocks, MayRoundTheWeightsOfEachChannelByTheirOwnRange) {
  Hyperparams hyperparams = rounded_from(0);
  hyperparams.quantization->weights_per_channel = true;
  const ConvBlockOptions depthwise{.in_depth = 4, .kernel = {3, 3}, .depthwise = true};
  for (const ConvBlockOptions& options : {kConvolution, depthwise}) {
    const auto block = seasoned(options, hyperparams), floats = seasoned(options, rounded_from({})),
               one_range = seasoned(options, rounded_from(0));
    const at::NoGradGuard no_gradients;
    for (const auto& made : {block, floats, one_range})  // of a channel that has seen next to nothing
      made->named_buffers()["BatchNorm.moving_variance"][0].fill_(1e-12);
    for (const auto& made : {block, one_range}) {
      made->forward(picture());
      commit_ranges(*made);
    }
    const int64_t channels = block->named_buffers()["BatchNorm.moving_variance"].numel();
    EXPECT_EQ(block->named_buffers()["weights_quant.max"].sizes(), at::IntArrayRef{channels});
    for (const auto& made : {block, floats, one_range}) made->eval();
    const at::Tensor expected = floats->forward(picture());
    const auto error = [&](ConvBlock& made) {
      return (made.forward(picture()) - expected).narrow(1, 1, channels - 1).square().mean().item<double>();
    };
    EXPECT_LT(5 * error(*block), error(*one_range));
  }
  const SeparableConvBlock separable({.in_depth = 4, .out_depth = 6, .depth_multiplier = 2}, hyperparams);
  EXPECT_EQ(separable.named_buffers()["separable_conv2d.weights_quant.max"].numel(), 8);
  EXPECT_EQ(separable.named_buffers()["weights_quant.max"].numel(), 6);
}

TEST(QuantizedBlocks, MayRoundBeforeTheActivationInTraining) {
  Hyperparams hyperparams = rounded_from(0);
  hyperparams.quantization->before_activation = true;
  for (const int64_t delay : {0, 9}) {
    hyperparams.quantization->delay = delay;
    const auto block = seasoned(kConvolution, hyperparams);
    EXPECT_EQ(block->forward(picture()).min().item<double>(), 0) << "activated all the same";
    commit_ranges(*block);
    EXPECT_LT(value_of(*block, "act_quant.min"), -0.1);
    block->eval();
    EXPECT_EQ(block->forward(picture()).min().item<double>(), 0);
  }
}

TEST(QuantizedBlocks, KeepMapsOfHalfTheBits) {
  for (const int64_t delay : {0, 9})
    for (const bool frozen : {false, true}) {
      Hyperparams hyperparams = rounded_from(delay);
      hyperparams.batch_norm->train = !frozen;
      const auto block = seasoned(kConvolution, hyperparams);
      const Autocast scope(at::kCPU, at::kBFloat16);
      EXPECT_EQ(block->forward(picture()).scalar_type(), at::kBFloat16) << delay << " " << frozen;
    }
}

/// Batch norm of each kind as a part of the convolution before it, which here gives its input as it is.
TEST(FoldedBatchNorm, IsBatchNorm) {
  for (const bool scale : {false, true})
    for (const bool center : {false, true})
      for (const int64_t replicas : {0, 1, 3}) {
        const auto made = [&] {
          auto norm = std::make_shared<BatchNorm>(4, BatchNormOptions{.center = center, .scale = scale});
          season(*norm);
          if (replicas > 0)  // all of them see the same
            norm->synchronize(std::make_shared<const kernels::ReplicaSum>(
                kernels::ReplicaSum{[=](const at::Tensor& numbers) { numbers.mul_(replicas); }, replicas}));
          return norm;
        };
        const auto folds = made(), normalises = made();
        const auto composed = [](const BatchNorm::Folded& folded, const at::Tensor& y) {
          const at::Tensor product = y * of_channels(folded.factor);
          const at::Tensor scaled = folded.correction.defined()
                                        ? (product - of_channels(folded.mean)) * of_channels(folded.correction)
                                        : product;
          return folded.shift.defined() ? scaled + of_channels(folded.shift) : scaled;
        };
        const at::Tensor x = picture().clone().requires_grad_(), y = composed(folds->fold(x), x),
                         expected = normalises->forward(x);
        expect_close(y, expected, 1e-5, 1e-5, "training");
        at::manual_seed(6);
        const at::Tensor slopes = at::randn_like(y);
        std::vector<at::Tensor> of_folds = folds->parameters(), of_other = normalises->parameters();
        of_folds.push_back(x), of_other.push_back(x);
        const auto ours = torch::autograd::grad({(y * slopes).sum()}, of_folds),
                   theirs = torch::autograd::grad({(expected * slopes).sum()}, of_other);
        for (size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], theirs[i], 1e-4, 1e-4, std::to_string(i));
        BatchNorm::commit({folds.get()});
        BatchNorm::commit({normalises.get()});
        for (const char* const name : {"moving_mean", "moving_variance"})
          expect_close(folds->named_buffers()[name], normalises->named_buffers()[name], 1e-6, 1e-6, name);
        folds->eval(), normalises->eval();
        expect_close(composed(folds->fold(), x), normalises->forward(x), 1e-5, 1e-5, "evaluation");
      }
}

TEST(QuantizedBlocks, KeepTheStatisticsOfTheBatchAside) {
  const auto rounded = seasoned(kConvolution, rounded_from(0)), floats = seasoned(kConvolution, rounded_from({}));
  for (const auto& block : {rounded, floats}) {
    block->forward(picture());
    BatchNorm::commit({dynamic_cast<BatchNorm*>(block->named_children()["BatchNorm"].get())});
  }
  for (const char* const name : {"BatchNorm.moving_mean", "BatchNorm.moving_variance"})
    expect_close(rounded->named_buffers()[name], floats->named_buffers()[name], 1e-6, 1e-6, name);
}

std::vector<std::string> quantizers_of(const torch::nn::Module& module) {
  std::vector<std::string> result;
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    if (dynamic_cast<const FakeQuantize*>(item.value().get()) != nullptr) result.push_back(item.key());
  return result;
}

TEST(QuantizedBlocks, RoundBothHalvesOfSeparableConvolutionsAndSumsOfResidualUnits) {
  const SeparableConvBlock separable({.in_depth = 4, .out_depth = 8}, rounded_from(0));
  EXPECT_THAT(quantizers_of(separable),
              UnorderedElementsAre("separable_conv2d.weights_quant", "separable_conv2d.act_quant", "weights_quant",
                                   "act_quant"));
  InvertedResidual residual({.in_depth = 4, .expanded_depth = 8, .out_depth = 4}, rounded_from(0));
  EXPECT_EQ(quantizers_of(residual).size(), 7U);
  season(residual);
  const at::Tensor sum = residual.forward(picture(), {});
  EXPECT_LE(std::get<0>(at::_unique2(sum)).numel(), 256);
  EXPECT_THAT(quantizers_of(InvertedResidual({.in_depth = 4, .expanded_depth = 8, .out_depth = 4}, rounded_from({}))),
              IsEmpty());
}

TEST(QuantizedBlocks, OfSeveralMapsEachHasRangesOfItsOwn) {
  const auto maps_of = [](const QuantizedMaps& maps) {
    ConvBlockOptions options = kConvolution;
    options.normalize = options.activate = false;
    options.maps = maps;
    return std::make_shared<ConvBlock>(options, rounded_from(0));
  };
  EXPECT_THAT(quantizers_of(*maps_of({2, /*own_weights=*/true})),
              UnorderedElementsAre("weights_quant.feature_0", "weights_quant.feature_1", "act_quant.feature_0",
                                   "act_quant.feature_1"));
  const auto shared = maps_of({2});
  EXPECT_THAT(quantizers_of(*shared),
              UnorderedElementsAre("weights_quant", "act_quant.feature_0", "act_quant.feature_1"));
  season(*shared);
  shared->forward_all({picture(), 10 * picture()}, {});
  commit_ranges(*shared);
  EXPECT_GT(value_of(*shared, "act_quant.feature_1.max"), 5 * value_of(*shared, "act_quant.feature_0.max"));
  EXPECT_EQ(value_of(*shared, "weights_quant.local_step"), 1);
}

/// Ranges after a step of training before its delay.
std::map<std::string, double> noted_ranges(torch::nn::Module& module) {
  commit_ranges(module);
  std::map<std::string, double> result;
  for (const auto& item : module.named_buffers())
    if (is_of_quantizer(item.key())) result[item.key()] = item.value().item<double>();
  return result;
}

/// In a chain of convolutions, whose maps are never written as they are when normalised, and one by one.
TEST(QuantizedBlocks, TakeNoteOfTheSameRangesInAChain) {
  const auto expect_same = [](const auto& ours, const auto& theirs) {
    ASSERT_GT(ours.size(), 5U);
    for (const auto& [name, value] : ours) EXPECT_NEAR(value, theirs.at(name), 1e-4) << name;
  };
  for (const bool before_activation : {false, true}) {
    Hyperparams hyperparams = rounded_from(9);
    hyperparams.quantization->before_activation = before_activation;
    hyperparams.activation = Activation::kRelu6;
    const auto of_residual = [&] {
      InvertedResidual residual({.in_depth = 16, .expanded_depth = 64, .out_depth = 16}, hyperparams);
      season(residual);
      at::manual_seed(5);
      residual.forward(at::randn({2, 16, 9, 8}).contiguous(at::MemoryFormat::ChannelsLast), {});
      return noted_ranges(residual);
    };
    const auto of_shared = [&] {
      ConvBlock shared({.in_depth = 16,
                        .out_depth = 32,
                        .kernel = {3, 3},
                        .normalize = false,
                        .activate = false,
                        .bias = false,
                        .maps = {2, /*own_weights=*/true}},
                       hyperparams);
      season(shared);
      NormsOfMaps behind{.activation = Activation::kRelu6};
      for (int i = 0; i < 2; ++i) {
        behind.norms.push_back(std::make_shared<BatchNorm>(32, *hyperparams.batch_norm));
        season(*behind.norms.back());
      }
      at::manual_seed(5);
      shared.forward_all({at::randn({2, 16, 12, 12}).contiguous(at::MemoryFormat::ChannelsLast),
                          at::randn({2, 16, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast)},
                         behind);
      return noted_ranges(shared);
    };
    const auto residual = of_residual(), shared = of_shared();
    const kernels::device::Emulation one_by_one;  // which has no chains, and does not know that it waits
    expect_same(residual, of_residual());
    expect_same(shared, of_shared());
    EXPECT_EQ(shared.at("act_quant.feature_0.min") < 0, before_activation);
  }
}

TEST(Quantizers, HaveTheNamesOfTheOriginalsOperations) {
  EXPECT_THAT(tf_quantizer_names("FeatureExtractor.MobilenetV1.Conv2d_0.act_quant.max"),
              ElementsAre("FeatureExtractor/MobilenetV1/Conv2d_0/act_quant/max",
                          "FeatureExtractor/MobilenetV1/MobilenetV1/Conv2d_0/act_quant/max"));
  const auto first = [](const std::string& name) { return tf_quantizer_names(name).at(0); };
  EXPECT_EQ(first("FeatureExtractor.MobilenetV2.fpn.sum_quant.min"),
            "FeatureExtractor/MobilenetV2/fpn/top_down/add/activation_AddV2_quant/min");
  EXPECT_EQ(first("FeatureExtractor.MobilenetV2.fpn.sum_1_quant.min"),
            "FeatureExtractor/MobilenetV2/fpn/top_down/add_1/activation_AddV2_quant/min");
  EXPECT_EQ(first("FeatureExtractor.MobilenetV2.fpn.smoothing_1.separable_conv2d.weights_quant.min"),
            "FeatureExtractor/MobilenetV2/fpn/top_down/smoothing_1/separable_conv2d/weights_quant/min");
  const std::string tower = "WeightSharedConvolutionalBoxPredictor.PredictionTower.conv2d_0.act_quant.feature_";
  EXPECT_EQ(first(tower + "0.max"), "WeightSharedConvolutionalBoxPredictor/PredictionTower/conv2d_0/act_quant/max");
  EXPECT_EQ(first("WeightSharedConvolutionalBoxPredictor.ProjectionLayer.conv2d_2.act_quant.max"),
            "WeightSharedConvolutionalBoxPredictor_2/ProjectionLayer/conv2d_2/act_quant/max");
  EXPECT_EQ(first(tower + "3.max"), "WeightSharedConvolutionalBoxPredictor_3/PredictionTower/conv2d_0/act_quant/max");
  EXPECT_THAT(tf_quantizer_names("FeatureExtractor.MobilenetV1.Conv2d_0.weights"), IsEmpty());
  EXPECT_THAT(tf_quantizer_names("FeatureExtractor.MobilenetV1.Conv2d_0.act_quant.local_step"), IsEmpty());
  EXPECT_TRUE(is_of_quantizer("FeatureExtractor.MobilenetV1.Conv2d_0.act_quant.local_step"));
  EXPECT_FALSE(is_of_quantizer("FeatureExtractor.MobilenetV1.Conv2d_0.weights"));
}

}  // namespace
}  // namespace osprey::nn
