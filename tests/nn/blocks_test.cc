// Blocks that networks are made of: squeeze and excitation, separable convolutions, weighted fusion, dropped branches;
// convolutions in half precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "../src/nn/autocast.h"
#include "osprey/base/cpu.h"
#include "osprey/config/parse.h"
#include "osprey/nn/builder.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"
#include "osprey/nn/feature_map.h"
#include "osprey/nn/inverted_residual.h"
#include "osprey/nn/multiply_adds.h"
#include "osprey/nn/separable_convolution.h"
#include "osprey/nn/weighted_fusion.h"
#include "osprey/protos/ssd.pb.h"
#include "support/golden.h"

namespace osprey::nn {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor ramp(at::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).mul_(0.37).sin_().view(sizes);
}

Hyperparams plain() {
  Hyperparams result;
  result.initializer = Initializer::normal(0, 0.3);
  result.batch_norm = std::nullopt;
  return result;
}

at::Tensor variable(const torch::nn::Module& module, const std::string& name) {
  return module.named_parameters()[name];
}

TEST(SqueezeExcite, WeighsChannelsByTheirMeans) {
  for (const auto gate : {SqueezeExciteOptions::Gate::kSigmoid, SqueezeExciteOptions::Gate::kHardSigmoid}) {
    SqueezeExcite block({.depth = 6, .squeezed_depth = 2, .gate = gate}, plain());
    initialize_model(block, 3);
    const at::Tensor x = ramp({2, 6, 3, 5});
    const at::Tensor inner =
        at::relu(at::conv2d(x.mean({2, 3}, true), variable(block, "Conv.weights"), variable(block, "Conv.biases")));
    const at::Tensor outer = at::conv2d(inner, variable(block, "Conv_1.weights"), variable(block, "Conv_1.biases"));
    const at::Tensor weights =
        gate == SqueezeExciteOptions::Gate::kSigmoid ? at::sigmoid(outer) : at::clamp(outer + 3, 0, 6) * 0.16667;
    expect_close(block.forward(x), x * weights, 1e-6, 1e-6, "gated map");
    expect_close(block.forward(x.contiguous(at::MemoryFormat::ChannelsLast)), x * weights, 1e-6, 1e-6,
                 "gated map by our operators");
    EXPECT_EQ(block.forward(x.slice(0, 0, 0).contiguous(at::MemoryFormat::ChannelsLast)).numel(), 0);
  }
}

TEST(SqueezeExcite, TakesMapsThatAreStillToBeNormalized) {
  SqueezeExcite block({.depth = 6, .squeezed_depth = 2}, plain());
  initialize_model(block, 3);
  at::manual_seed(5);
  const kernels::PendingMap pending{.x = ramp({2, 6, 3, 5}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(),
                                    .mean = at::rand({6}),
                                    .inverse_deviation = at::rand({6}),
                                    .epilogue = {.curve = kernels::Epilogue::Curve::kSwish}};
  const auto gradient = [&](const at::Tensor& y) {
    return torch::autograd::grad({y.square().sum()}, {pending.x}).front();
  };
  const at::Tensor y = block.forward(FeatureMap(pending)),
                   expected = block.forward(FeatureMap(pending).values().contiguous());  // by libtorch's operations
  expect_close(y, expected, 1e-6, 1e-6, "gated map");
  expect_close(gradient(y), gradient(expected), 1e-5, 1e-6, "gradient");
}

TEST(SeparableConvBlock, IsADepthwiseAndAPointwiseConvolution) {
  torch::nn::Module model;  // whose first weights are those of its children
  SeparableConvBlock& block = *model.register_module(
      "block",
      std::make_shared<SeparableConvBlock>(
          SeparableConvBlockOptions{.in_depth = 3, .out_depth = 5, .depth_multiplier = 2, .activate = false}, plain()));
  initialize_model(model, 3);
  const at::Tensor kernels = variable(block, "depthwise_weights"), x = ramp({2, 3, 7, 7});
  ASSERT_EQ(kernels.sizes().vec(), (std::vector<int64_t>{3, 2, 3, 3}));
  std::vector<at::Tensor> maps;  // channel by channel, each filter of it
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t m = 0; m < 2; ++m)
      maps.push_back(at::conv2d(x.slice(1, c, c + 1), kernels[c][m].view({1, 1, 3, 3}), {}, 1, 1));
  const at::Tensor expected =
      at::conv2d(at::cat(maps, 1), variable(block, "pointwise_weights"), variable(block, "biases"));
  expect_close(block.forward(x), expected, 1e-5, 1e-5, "output");
}

TEST(WeightedFusion, FollowsItsMethod) {
  const at::Tensor a = ramp({1, 2, 2, 2}), b = a + 1, c = a * -2;
  const auto fuse = [&](FusionMethod method, const std::vector<float>& values) {
    WeightedFusion fusion(method, 3);
    at::NoGradGuard no_grad;
    for (const at::Tensor& weights : fusion.parameters()) weights.copy_(at::tensor(values).view({3, 1}));
    return fusion.forward({a, b, c});
  };
  expect_close(fuse(FusionMethod::kSum, {}), a + b + c, 1e-6, 1e-6, "sum");
  expect_close(fuse(FusionMethod::kWeightedSum, {2, -1, 0.5}), a * 2 - b + c * 0.5, 1e-6, 1e-6, "weighted sum");
  // The original's softmax runs over one value.
  expect_close(fuse(FusionMethod::kAttention, {2, -1, 0.5}), a + b + c, 1e-6, 1e-6, "attention");
  expect_close(fuse(FusionMethod::kFastAttention, {2, -1, 0.5}), (a * 2 + c * 0.5) / 2.5001, 1e-6, 1e-6,
               "fast attention");
  WeightedFusion sum(FusionMethod::kSum, 2);
  EXPECT_TRUE(sum.parameters().empty());
}

/// A convolution, then depthwise ones and such of single places in turn, as in a MobileNet.
struct Chain : torch::nn::Module {
  explicit Chain(Activation activation, bool scale = true) {
    Hyperparams hyperparams = plain();
    hyperparams.activation = activation;
    hyperparams.batch_norm = BatchNormOptions{.decay = 0.9, .center = scale, .scale = scale};
    const auto add = [&](const ConvBlockOptions& options) {
      blocks.push_back(
          register_module(fmt::format("block_{}", blocks.size()), std::make_shared<ConvBlock>(options, hyperparams)));
    };
    add({.in_depth = 3, .out_depth = 16, .kernel = {3, 3}, .stride = 2});
    add({.in_depth = 16, .kernel = {3, 3}, .depthwise = true});
    add({.in_depth = 16, .out_depth = 24});
    add({.in_depth = 24, .kernel = {5, 5}, .stride = 2, .depthwise = true});
    add({.in_depth = 24, .out_depth = 40});
    add({.in_depth = 40, .out_depth = 32, .kernel = {3, 3}, .stride = 2});
    initialize_model(*this, 4);
  }
  std::vector<std::shared_ptr<ConvBlock>> blocks;
};

/// All gradients, then what the averages have become.
std::vector<at::Tensor> after_a_step(Chain& chain, const at::Tensor& y) {
  (y * ramp(y.sizes())).sum().backward();
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : chain.parameters()) result.push_back(parameter.grad());
  for (const auto& module : chain.modules(/*include_self=*/false))
    if (auto* norm = dynamic_cast<BatchNorm*>(module.get())) BatchNorm::commit({norm});
  for (const at::Tensor& average : chain.buffers()) result.push_back(average);
  return result;
}

TEST(ConvBlock, MayLeaveItsBatchNormToTheNextOne) {
  for (const auto& [activation, scale] :
       {std::pair{Activation::kRelu6, true}, {Activation::kHardSwish, false}, {Activation::kNone, true}}) {
    Chain one(activation, scale), other(activation, scale);
    const at::Tensor x = ramp({2, 3, 21, 18}).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor y = x;
    for (const auto& block : one.blocks) y = block->forward(y);
    FeatureMap map = x;
    for (const auto& block : other.blocks) map = block->forward(map);
    expect_close(map.values(), y, 1e-5, 1e-5, "values");
    // Six batch norms divide by deviations of small batches, each of which makes rounding larger.
    const auto expected = after_a_step(one, y), found = after_a_step(other, map.values());
    for (size_t i = 0; i < found.size(); ++i)
      expect_close(found[i], expected[i], 1e-4, 1e-4, fmt::format("gradient or average {}", i));
  }
}

TEST(ConvBlock, TheEndOfAResidualUnitIsTheActivationOfTheSum) {
  for (const int64_t kernel : {1, 3})
    for (const bool trains : {true, false})
      for (const bool last : {true, false})  // channels_last, as the kernels need them, or not
        for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSwish}) {
          Hyperparams hyperparams = plain();
          hyperparams.batch_norm = BatchNormOptions{.decay = 0.9, .scale = true, .train = trains};
          std::vector<at::Tensor> results[2];
          for (const bool apart : {false, true}) {
            torch::nn::Module parent;
            ConvBlock& block = *parent.register_module(
                "block",
                std::make_shared<ConvBlock>(
                    ConvBlockOptions{.in_depth = 16, .out_depth = 24, .kernel = {kernel, kernel}, .activate = false},
                    hyperparams));
            initialize_model(parent, 5);
            const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
            const at::Tensor x = ramp({2, 16, 9, 8}).contiguous(format).requires_grad_(),
                             addend = ramp({2, 24, 9, 8}).cos().contiguous(format).requires_grad_();
            const at::Tensor y = apart ? activate(block.forward(x) + addend, activation)
                                       : block.forward_plus(FeatureMap(x), addend, activation).map;
            (y * ramp(y.sizes())).sum().backward();
            results[apart] = {y, x.grad(), addend.grad()};
            for (const at::Tensor& parameter : block.parameters()) results[apart].push_back(parameter.grad());
          }
          for (size_t i = 0; i < results[0].size(); ++i)
            expect_close(results[0][i], results[1][i], 1e-4, 1e-4,
                         fmt::format("{}x{}, trains {}, channels_last {}, activation {}, result {}", kernel, kernel,
                                     trains, last, static_cast<int>(activation), i));
        }
}

TEST(ConvBlock, WhatReadsASumIsTheSameAsBehindIt) {
  for (const int64_t kernel : {1, 3})
    for (const bool trains : {true, false})
      for (const bool normalizes : {true, false})
        for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSwish}) {
          Hyperparams hyperparams = plain();
          hyperparams.activation = Activation::kRelu6;
          hyperparams.batch_norm = BatchNormOptions{.decay = 0.9, .scale = true, .train = trains};
          std::vector<at::Tensor> results[2];
          for (const bool apart : {false, true}) {
            torch::nn::Module parent;
            const auto add = [&](const char* name, const ConvBlockOptions& options) {
              return parent.register_module(name, std::make_shared<ConvBlock>(options, hyperparams));
            };
            ConvBlock &block = *add("block", {.in_depth = 16, .out_depth = 24, .activate = false}),
                      &next =
                          *add("next",
                               {.in_depth = 24, .out_depth = 20, .kernel = {kernel, kernel}, .normalize = normalizes});
            initialize_model(parent, 5);
            const auto map = [](at::IntArrayRef sizes) {
              return ramp(sizes).contiguous(at::MemoryFormat::ChannelsLast);
            };
            const at::Tensor x = map({2, 16, 9, 8}).requires_grad_(),
                             addend = map({2, 24, 9, 8}).cos().requires_grad_();
            const MultiplyAddCounter counter;
            const ForkedMap sum = block.forward_plus(FeatureMap(x), addend, activation, apart ? nullptr : &next);
            const bool in_one = kernel == 1 && trains && normalizes && activation != Activation::kSwish;
            EXPECT_EQ(sum.read.has_value(), !apart && in_one);
            const at::Tensor y = (sum.read ? *sum.read : next.forward(FeatureMap(sum.map))).values();
            EXPECT_EQ(counter.count(), 2 * 9 * 8 * (16 * 24 + 24 * 20 * kernel * kernel));
            ((y * ramp(y.sizes())).sum() + (sum.again * ramp(sum.again.sizes())).sum()).backward();
            for (const auto& module : parent.modules(/*include_self=*/false))
              if (auto* norm = dynamic_cast<BatchNorm*>(module.get())) BatchNorm::commit({norm});
            results[apart] = {y, sum.map, x.grad(), addend.grad()};
            for (const at::Tensor& parameter : parent.parameters()) results[apart].push_back(parameter.grad());
            for (const at::Tensor& statistic : parent.buffers()) results[apart].push_back(statistic);
          }
          // Two batch norms divide by deviations of a small batch, each of which makes rounding larger.
          for (size_t i = 0; i < results[0].size(); ++i)
            expect_close(results[0][i], results[1][i], 1e-4, 1e-4,
                         fmt::format("{}x{}, trains {}, normalizes {}, activation {}, result {}", kernel, kernel,
                                     trains, normalizes, static_cast<int>(activation), i));
        }
}

TEST(ConvBlock, WithAnActivationOfItsOwnIsNoEndOfAResidualUnit) {
  Hyperparams hyperparams = plain();
  hyperparams.activation = Activation::kRelu;
  ConvBlock block({.in_depth = 4, .out_depth = 4}, hyperparams);
  EXPECT_THROW(block.forward_plus(FeatureMap(ramp({1, 4, 3, 3})), ramp({1, 4, 3, 3}), Activation::kRelu), c10::Error);
}

TEST(ConvBlock, WhoseWindowJumpsIsConvolutionBatchNormAndActivation) {
  Hyperparams hyperparams = plain();
  hyperparams.activation = Activation::kRelu6;
  hyperparams.batch_norm = BatchNormOptions{.decay = 0.9, .scale = true};
  torch::nn::Module parent;
  const auto block = parent.register_module(
      "block", std::make_shared<ConvBlock>(
                   ConvBlockOptions{.in_depth = 3, .out_depth = 32, .kernel = {3, 3}, .stride = 2}, hyperparams));
  initialize_model(parent, 4);
  const at::Tensor x = ramp({2, 3, 20, 18}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(block->forward(FeatureMap(x)).is_pending());
  const at::Tensor weights = block->named_parameters()["weights"];
  const auto norm = std::dynamic_pointer_cast<BatchNorm>(block->named_modules()["BatchNorm"]);
  norm->discard_statistics();

  const at::Tensor y = block->forward(x);
  (y * ramp(y.sizes())).sum().backward();
  BatchNorm::commit({norm.get()});
  const at::Tensor gradient = weights.grad().clone(), average = norm->named_buffers()["moving_variance"].clone();
  weights.mutable_grad() = at::Tensor();
  norm->named_buffers()["moving_variance"].fill_(1);

  const at::Tensor expected =
      norm->forward(at::conv2d(at::constant_pad_nd(x, {0, 1, 0, 1}), weights, {}, 2), Activation::kRelu6);
  (expected * ramp(y.sizes())).sum().backward();
  BatchNorm::commit({norm.get()});
  expect_close(y, expected.detach(), 1e-5, 1e-5, "values");
  expect_close(gradient, weights.grad(), 1e-4, 1e-4, "gradient of the weights");
  expect_close(average, norm->named_buffers()["moving_variance"], 1e-6, 1e-5, "average");
}

TEST(ConvBlock, LeavesNothingPendingWhereStatisticsAreNotOfTheBatch) {
  Chain chain(Activation::kRelu6);
  const at::Tensor x = ramp({2, 16, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  ConvBlock& depthwise = *chain.blocks[1];
  const auto leaves = [&] { return depthwise.forward(FeatureMap(x)).is_pending(); };
  EXPECT_TRUE(leaves());
  {
    const at::NoGradGuard no_gradients;
    EXPECT_FALSE(leaves());
  }
  chain.eval();
  EXPECT_FALSE(leaves());
  chain.train();
  const auto norm = std::dynamic_pointer_cast<BatchNorm>(depthwise.named_modules()["BatchNorm"]);
  norm->synchronize(std::make_shared<kernels::ReplicaSum>(kernels::ReplicaSum{[](const at::Tensor&) {}, 1}));
  EXPECT_FALSE(leaves());
}

TEST(Convolution, OfHalfWeightsIsThatOfLibtorch) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = ramp({2, 16, 9, 8}).to(type), weights = ramp({8, 16, 3, 3}).to(type);
    EXPECT_TRUE(at::equal(convolve(x, weights, {}, {.kernel = {3, 3}}), at::conv2d(x, weights, {}, 1, 1)));
  }
}

/// How far `rough` is from `exact`, in units of the deviation of the latter.
double distance(const at::Tensor& rough, const at::Tensor& exact) {
  return ((rough.to(at::kDouble) - exact).square().mean() / exact.to(at::kDouble).var()).sqrt().item<double>();
}

TEST(ConvBlock, UnderAutocastHasMapsOfHalfTheBitsAndGradientsOfFloats) {
  for (const auto& [type, rounding] : {std::pair{at::kBFloat16, 1.0 / 128}, {at::kHalf, 1.0 / 1024}}) {
    Chain one(Activation::kSwish), other(Activation::kSwish);  // smooth: nothing jumps
    const at::Tensor x = ramp({2, 3, 81, 78}).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor exact = x, rough;
    for (const auto& block : one.blocks) exact = block->forward(exact);
    {
      const Autocast scope(at::kCPU, type);
      FeatureMap map = x;
      for (const auto& block : other.blocks) {
        map = block->forward(map);
        EXPECT_EQ(map.pending().x.scalar_type(), type);
      }
      rough = map.values();
    }
    EXPECT_EQ(rough.scalar_type(), type);
    // Each of six convolutions and batch norms adds a rounding to what those before it have made of theirs.
    EXPECT_LT(distance(rough, exact), 10 * rounding);
    EXPECT_GT(distance(rough, exact), 0.1 * rounding) << "nothing has been rounded";
    const auto expected = after_a_step(one, exact), found = after_a_step(other, rough);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), at::kFloat);
      EXPECT_LT(distance(found[i], expected[i]), 20 * rounding) << "gradient or average " << i;
    }
  }
}

TEST(Convolution, UnderAutocastIsThatOfTheRoundedMap) {
  const ConvolutionOptions all[] = {{{1, 1}},       {{3, 3}},          {{3, 3}, 2},
                                    {{3, 3}, 1, 2}, {{3, 3}, 1, 1, 2}, {{3, 3}, 2, 1, 16}};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const ConvolutionOptions& options : all)
      for (const bool biased : {true, false}) {
        const std::string what =
            fmt::format("{}, kernel {}, stride {}, dilation {}, groups {}, biases: {}", c10::toString(type),
                        options.kernel[0], options.stride, options.dilation, options.groups, biased);
        const at::Tensor x = ramp({2, 16, 19, 18}).contiguous(at::MemoryFormat::ChannelsLast);
        const auto leaf = [](at::IntArrayRef sizes) { return ramp(sizes).mul_(0.3).requires_grad_(true); };
        const auto run = [&](const at::Tensor& map) {
          const at::Tensor weights = leaf({16, 16 / options.groups, options.kernel[0], options.kernel[1]}),
                           biases = biased ? leaf({16}) : at::Tensor(), input = map.detach().requires_grad_(true);
          const at::Tensor y = convolve(input, weights, biases, options);
          return std::vector<at::Tensor>{y, weights, input, biases};
        };
        const auto back = [&](const std::vector<at::Tensor>& of) {
          (of[0].to(at::kFloat) * ramp(of[0].sizes())).sum().backward();
          std::vector<at::Tensor> result{of[0].detach(), of[1].grad(), of[2].grad()};
          if (biased) result.push_back(of[3].grad());
          return result;
        };
        const auto exact = back(run(x.to(type).to(at::kFloat)));
        std::vector<at::Tensor> made;
        {
          const Autocast scope(at::kCPU, type);
          made = run(x);
        }
        const auto rough = back(made);
        // Arithmetic and weights are those of floats unless the CPU has its own for half the bits: one rounding.
        if (type == at::kHalf || !has_bfloat16_arithmetic()) {
          EXPECT_TRUE(at::allclose(rough[0].to(at::kFloat), exact[0], type == at::kHalf ? 1.0 / 2048 : 1.0 / 256, 1e-6))
              << what;
        }
        for (size_t i = 0; i < exact.size(); ++i) {
          EXPECT_EQ(rough[i].scalar_type(), i == 0 ? type : at::kFloat) << what;
          // a rounding of the weights where the CPU computes with half the bits, one of y and one of its gradient;
          // there also one of what Winograd's tiles multiply
          const bool by_pairs_in_tiles = has_bfloat16_arithmetic() && options.kernel == std::array<int64_t, 2>{3, 3} &&
                                         options.stride * options.dilation * options.groups == 1;
          const double bound = type == at::kHalf ? 2e-3 : by_pairs_in_tiles ? 2.4e-2 : 1.6e-2;
          EXPECT_LT(distance(rough[i], exact[i]), bound) << what << ", tensor " << i;
        }
      }
}

TEST(Convolution, OneLargeGradientDoesNotHideThoseOfTheOtherPlaces) {
  at::manual_seed(9);
  at::Tensor gradient = at::rand({2, 16, 200, 200}) * 1e-6;
  gradient[0].select(1, 0).select(1, 0) = 1;
  const at::Tensor biases = at::zeros({16}).requires_grad_(), weights = at::randn({16, 16, 1, 1}).requires_grad_();
  const at::Tensor x = at::randn({2, 16, 200, 200}).contiguous(at::MemoryFormat::ChannelsLast);
  convolve(x, weights, biases, {.kernel = {1, 1}}).backward(gradient);
  expect_close(biases.grad(), gradient.to(at::kDouble).sum({0, 2, 3}).to(at::kFloat), 1e-6, 0, "biases");
}

TEST(Convolution, OfAllMapsIsThatOfEach) {
  at::manual_seed(11);
  // By tiles, place by place, by libtorch, with windows that jump, channel by channel.
  const std::tuple<int64_t, int64_t, ConvolutionOptions> kinds[] = {{32, 32, {.kernel = {3, 3}}},
                                                                    {24, 40, {}},
                                                                    {5, 7, {.kernel = {3, 3}}},
                                                                    {32, 32, {.kernel = {3, 3}, .stride = 2}},
                                                                    {32, 32, {.kernel = {3, 3}, .groups = 32}}};
  for (const auto& [in, out, options] : kinds) {
    const std::string what = fmt::format("{} to {} channels, stride {}", in, out, options.stride);
    const auto gradients_of = [&, in = in, out = out, options = options](bool together) {
      at::manual_seed(12);
      const at::Tensor weights = at::randn({out, in / options.groups, options.kernel[0], options.kernel[1]})
                                     .contiguous(at::MemoryFormat::ChannelsLast)
                                     .requires_grad_(),
                       biases = at::randn({out}).requires_grad_();
      std::vector<at::Tensor> maps, results;
      for (const int64_t side : {17, 6, 3}) {
        maps.push_back(at::randn({2, in, side, side}).contiguous(at::MemoryFormat::ChannelsLast));
        if (side != 6) maps.back().requires_grad_();  // one of them needs no gradient
      }
      if (together) {
        results = convolve_all(maps, weights, biases, options);
      } else {
        for (const at::Tensor& map : maps) results.push_back(convolve(map, weights, biases, options));
      }
      at::Tensor total = at::zeros({});
      for (const at::Tensor& y : results) total = total + (y * at::randn_like(y)).sum();
      total.backward();
      results.insert(results.end(), {maps[0].grad(), maps[2].grad(), weights.grad(), biases.grad()});
      return results;
    };
    const std::vector<at::Tensor> together = gradients_of(true), alone = gradients_of(false);
    for (size_t i = 0; i < alone.size(); ++i)
      expect_close(together[i].detach(), alone[i].detach(), 1e-4, 2e-3, fmt::format("{}, tensor {}", what, i));
  }
}

TEST(ConvBlock, OfSeveralMapsLeavesTheirBatchNormsAndGivesTheSame) {
  struct Kind {
    int64_t kernel;
    at::ScalarType type;
    bool leaves;
    double bound;
  };
  // Place by place; by tiles; by libtorch; by AMX. (Without that, tiles of bfloat16 numbers would be of other sizes for
  // one map than for all.)
  for (const Kind& kind : {Kind{1, at::kFloat, true, 1e-4}, Kind{3, at::kFloat, true, 1e-4},
                           Kind{5, at::kFloat, false, 1e-4}, Kind{3, at::kBFloat16, true, 0.02}}) {
    if (kind.type == at::kBFloat16 && !has_bfloat16_tiles()) continue;
    const std::string what = fmt::format("{0}x{0} of {1}", kind.kernel, c10::toString(kind.type));
    const auto results_of = [&](bool together) {
      torch::nn::Module model;
      const ConvBlockOptions options{.in_depth = 32,
                                     .out_depth = 32,
                                     .kernel = {kind.kernel, kind.kernel},
                                     .normalize = false,
                                     .activate = false,
                                     .bias = false};
      const auto block = model.register_module("block", std::make_shared<ConvBlock>(options, plain()));
      NormsOfMaps behind{.activation = Activation::kRelu6};
      std::vector<FeatureMap> maps;
      std::vector<at::Tensor> leaves, results;
      for (const int64_t side : {17, 12, 10}) {
        behind.norms.push_back(model.register_module(fmt::format("norm_{}", side),
                                                     std::make_shared<BatchNorm>(32, BatchNormOptions{.scale = true})));
        leaves.push_back(
            ramp({2, 32, side, side}).contiguous(at::MemoryFormat::ChannelsLast).to(kind.type).requires_grad_());
        maps.emplace_back(leaves.back());
      }
      initialize_model(model, 5);
      std::optional<Autocast> scope(std::in_place, at::kCPU, kind.type);
      for (int layer = 0; layer < 2; ++layer) {  // the second reads what has been left
        if (together) {
          maps = block->forward_all(maps, behind);
          for (const FeatureMap& map : maps) EXPECT_EQ(map.is_pending(), kind.leaves) << what;
        } else {
          for (size_t i = 0; i < maps.size(); ++i)
            maps[i] = behind.forward(i, block->forward_all({maps[i]}, {}).front().values());
        }
      }
      scope.reset();
      at::Tensor total = at::zeros({});
      for (const FeatureMap& map : maps) {
        results.push_back(map.values());
        total = total + (results.back().to(at::kFloat) * ramp(results.back().sizes())).sum();
      }
      total.backward();
      for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
      for (const at::Tensor& parameter : model.parameters()) results.push_back(parameter.grad());
      return results;
    };
    const std::vector<at::Tensor> together = results_of(true), apart = results_of(false);
    for (size_t i = 0; i < apart.size(); ++i) {
      const at::Tensor expected = apart[i].detach().to(at::kDouble);
      EXPECT_LE((together[i].detach().to(at::kDouble) - expected).norm().item<double>(),
                kind.bound * expected.norm().item<double>())
          << what << ", tensor " << i;
    }
  }
}

TEST(DropPath, DropsWholeExamplesByTheirKeys) {
  DropPath drop(0.25);
  drop.on_named("a.drop", 1);
  const at::Tensor x = at::ones({4000, 2, 1, 1}), keys = at::arange(4000, at::kLong);
  const at::Tensor y = drop.forward(x, {keys});
  EXPECT_TRUE(at::equal(y.select(1, 0), y.select(1, 1)));
  EXPECT_NEAR(y.eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.03);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 1e-6);
  // A mask belongs to the example, wherever it stands in the batch.
  EXPECT_TRUE(at::equal(drop.forward(x, {keys.flip(0)}), y.flip(0)));
  DropPath other(0.25);
  other.on_named("b.drop", 1);
  EXPECT_FALSE(at::equal(other.forward(x, {keys}), y));
  drop.eval();
  EXPECT_TRUE(at::equal(drop.forward(x, {keys}), x));
}

TEST(InvertedResidual, AddsItsInputWhereItFits) {
  Hyperparams hyperparams = plain();
  const at::Tensor x = ramp({1, 4, 6, 6});
  const auto run = [&](bool residual) {
    InvertedResidual block({.in_depth = 4, .expanded_depth = 8, .out_depth = 4, .residual = residual}, hyperparams);
    initialize_model(block, 5);
    at::Tensor expansion;
    const at::Tensor y = block.forward(x, {}, &expansion);
    EXPECT_EQ(expansion.size(1), 8);
    return y;
  };
  expect_close(run(true), run(false) + x, 1e-6, 1e-6, "with and without its input");
}

void expect_error(const std::string& text, const std::string& message) {
  const auto parsed = config::parse<proto::SsdFeatureExtractor>(text, "test");
  EXPECT_THAT([&] { build_feature_extractor(parsed.node(), {}); }, ThrowsMessage<ConfigError>(HasSubstr(message)))
      << text;
}

TEST(FeatureExtractors, NameTheFieldThatTheyCannotFollow) {
  expect_error("type: 'ssd_inception_v2'", "override_base_feature_extractor_hyperparams");
  expect_error("type: 'ssd_inception_v3' fpn {}", "fpn");
  expect_error("type: 'ssd_mobilenet_v3_large' bifpn {}", "bifpn");
  expect_error("type: 'ssd_mobiledet_cpu' use_explicit_padding: true", "use_explicit_padding");
  expect_error("type: 'embedded_ssd_mobilenet_v1' pad_to_multiple: 32", "pad_to_multiple");
  const std::string efficientdet = "type: 'ssd_efficientnet-b0_bifpn_keras' ";
  expect_error(efficientdet + "fpn {}", "fpn");
  expect_error(efficientdet + "depth_multiplier: 0.5", "depth_multiplier");
  expect_error(efficientdet + "use_depthwise: true", "use_depthwise");
  expect_error(efficientdet + "use_explicit_padding: true", "use_explicit_padding");
  expect_error(efficientdet + "override_base_feature_extractor_hyperparams: true",
               "conv_hyperparams.regularizer: must be an l2_regularizer");
  expect_error(efficientdet + "bifpn { combine_method: 'mean' }", "combine_method");
  expect_error(efficientdet + "bifpn { min_level: 6 }", "min_level");
  expect_error(efficientdet + "bifpn { max_level: 2 }", "max_level");
  expect_error(efficientdet + "bifpn { num_iterations: 0 }", "num_iterations");
  expect_error("type: 'ssd_mobilenet_v2_mnasfpn' fpn {}", "fpn.max_level");
}

TEST(FeatureExtractors, EfficientDetTakesOverOnlyTheWeightOfThePenalty) {
  const auto build = [](const std::string& more) {
    const auto parsed = config::parse<proto::SsdFeatureExtractor>(
        "type: 'ssd_efficientnet-b0_bifpn_keras' bifpn { min_level: 1 max_level: 3 } conv_hyperparams { activation: "
        "RELU "
        "regularizer { l2_regularizer { weight: 0.5 } } } " +
            more,
        "test");
    return build_feature_extractor(parsed.node(), {});
  };
  const auto weights_of = [](const FeatureExtractor& extractor) {
    std::multiset<double> result;
    for (const RegularizedWeight& item : regularized_weights(extractor)) result.insert(item.regularizer.weight);
    return result;
  };
  const auto own = build(""), overridden = build("override_base_feature_extractor_hyperparams: true");
  const auto weights = weights_of(*own);
  EXPECT_GT(weights.count(0.00001), 0u);
  EXPECT_GT(weights.count(0.5), 0u);
  EXPECT_EQ(weights_of(*overridden).count(0.5), weights.size());
  EXPECT_EQ(overridden->named_parameters().keys(), own->named_parameters().keys());
}

}  // namespace
}  // namespace osprey::nn
