#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"
#include "osprey/nn/multiply_adds.h"
#include "osprey/nn/regularizer.h"
#include "osprey/protos/hyperparams.pb.h"
#include "support/golden.h"

namespace osprey::nn {
namespace {

using ::osprey::testing::expect_close;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Initializer, DependsOnSeedNameAndShapeOnly) {
  const auto draw = [](const std::string& name, uint64_t seed) {
    at::Tensor values = at::empty({3, 70, 50});
    initialize(values, Initializer::normal(0, 1), {}, name, seed);
    return values;
  };
  EXPECT_TRUE(at::equal(draw("a.weights", 1), draw("a.weights", 1)));
  EXPECT_FALSE(at::equal(draw("a.weights", 1), draw("b.weights", 1)));
  EXPECT_FALSE(at::equal(draw("a.weights", 1), draw("a.weights", 2)));
}

TEST(Initializer, TruncatedNormalStaysWithinTwoDeviations) {
  at::Tensor values = at::empty({20000});
  initialize(values, Initializer::truncated_normal(1, 0.5), {}, "w", 7);
  EXPECT_GE(values.min().item<double>(), 0.0);
  EXPECT_LE(values.max().item<double>(), 2.0);
  EXPECT_NEAR(values.mean().item<double>(), 1, 0.02);
  // Cutting a normal at two deviations leaves 0.8796 of its deviation.
  EXPECT_NEAR(values.std().item<double>(), 0.5 * 0.8796, 0.01);
}

TEST(Initializer, VarianceScalingUsesTheFan) {
  at::Tensor values = at::empty({20000});
  initialize(values, Initializer::variance_scaling(2, Initializer::Mode::kFanIn, false), {.in = 50, .out = 1}, "w", 7);
  EXPECT_NEAR(values.std().item<double>(), std::sqrt(2.0 / 50), 0.004);
  initialize(values, Initializer::variance_scaling(1, Initializer::Mode::kFanAverage, true), {.in = 10, .out = 20}, "w",
             7);
  EXPECT_LE(values.abs().max().item<double>(), std::sqrt(3.0 / 15));  // Glorot's limit
  EXPECT_GE(values.abs().max().item<double>(), 0.99 * std::sqrt(3.0 / 15));
}

TEST(Regularizer, L2IsHalfTheWeightTimesTheSquares) {
  const at::Tensor w = at::tensor({1.0f, -2.0f, 3.0f}).requires_grad_(), v = at::tensor({2.0f}).requires_grad_();
  const at::Tensor frozen = at::tensor({4.0f});
  const std::vector<RegularizedWeight> weights = {
      {w, {Regularizer::Kind::kL2, 0.5}}, {v, {Regularizer::Kind::kL1, 0.1}}, {frozen, {Regularizer::Kind::kL2, 0.5}}};
  const at::Tensor loss = regularization_loss(weights);
  EXPECT_NEAR(loss.item<double>(), 0.25 * (14 + 16) + 0.1 * 2, 1e-6);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_FALSE(regularization_loss({}).defined());
}

TEST(Padding, PutsTheOddZeroAfter) {
  EXPECT_EQ(padding_amount(Padding::kSame, 300, 3, 2).before, 0);
  EXPECT_EQ(padding_amount(Padding::kSame, 300, 3, 2).after, 1);
  EXPECT_EQ(padding_amount(Padding::kSame, 75, 3, 2).before, 1);
  EXPECT_EQ(padding_amount(Padding::kSame, 5, 1, 2).after, 0);
  EXPECT_EQ(padding_amount(Padding::kFixed, 300, 3, 2).before, 1);
  EXPECT_EQ(padding_amount(Padding::kFixed, 300, 4, 2).after, 2);
  EXPECT_EQ(padding_amount(Padding::kValid, 300, 3, 2).after, 0);
}

TEST(Pooling, TakesTheLargestOfWhatIsThereHoweverItIsPadded) {
  at::manual_seed(4);
  for (const Padding padding : {Padding::kValid, Padding::kSame, Padding::kFixed})
    for (const int64_t kernel : {1, 2, 3, 5})
      for (const int64_t stride : {1, 2, 3})
        for (const int64_t height : {5, 6, 7, 8, 9})
          for (const int64_t width : {9, 10}) {
            const at::Tensor x = at::randn({2, 3, height, width}) - 5;  // zeros would be larger than all of them
            const PaddingAmount y = padding_amount(padding, height, kernel, stride),
                                z = padding_amount(padding, width, kernel, stride);
            const at::Tensor padded = at::constant_pad_nd(x, {z.before, z.after, y.before, y.after}, -INFINITY);
            EXPECT_TRUE(at::equal(max_pool(x, kernel, stride, padding),
                                  at::max_pool2d(padded, {kernel, kernel}, {stride, stride})))
                << kernel << " by " << stride << " over " << x.sizes() << ", padding " << static_cast<int>(padding);
          }
}

/// The rectified batch norm in one step against batch norm and activation apart, values and gradients.
void expect_same_as_two_steps(Activation activation, at::ScalarType type, double tolerance) {
  at::manual_seed(3);
  const at::Tensor x0 = at::randn({4, 6, 5, 7}).mul_(3).contiguous(at::MemoryFormat::ChannelsLast).to(type);
  const at::Tensor weights = at::randn({4, 6, 5, 7});
  std::vector<at::Tensor> results[2];
  for (const bool apart : {false, true}) {
    BatchNorm layer(6, {.scale = true});
    {
      at::NoGradGuard no_grad;
      layer.named_parameters()["gamma"].copy_(at::linspace(0.5, 2, 6));
      layer.named_parameters()["beta"].copy_(at::linspace(-1, 2, 6));
    }
    const at::Tensor x = x0.detach().requires_grad_();
    const at::Tensor y = apart ? activate(layer.forward(x), activation) : layer.forward(x, activation);
    (y.to(at::kFloat) * weights).sum().backward();
    results[apart] = {y, x.grad(), layer.named_parameters()["gamma"].grad(), layer.named_parameters()["beta"].grad()};
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    expect_close(results[0][i], results[1][i], tolerance, tolerance, "result " + std::to_string(i));
}

TEST(BatchNorm, WithActivationEqualsTheTwoSteps) {
  for (const Activation activation : {Activation::kRelu, Activation::kRelu6, Activation::kSwish, Activation::kNone}) {
    expect_same_as_two_steps(activation, at::kFloat, 1e-5);
    expect_same_as_two_steps(activation, at::kBFloat16, 3e-2);  // eight bits of mantissa
  }
}

TEST(BatchNorm, KeepsItsAveragesUntilTheCommit) {
  BatchNorm layer(2, {.decay = 0.5});
  const at::Tensor x =
      at::tensor({1.0f, 3.0f, 10.0f, 30.0f}).view({1, 2, 1, 2});  // means 2 and 20, unbiased variances 2 and 200
  layer.forward(x);
  layer.forward(x + 2);
  expect_close(layer.named_buffers()["moving_mean"], at::zeros({2}), 0, 0, "before");
  BatchNorm::commit({&layer});
  // Two passes before one commit count as one with the mean of both: 3 and 21; half of it is taken.
  expect_close(layer.named_buffers()["moving_mean"], at::tensor({1.5f, 10.5f}), 1e-6, 0, "after");
  expect_close(layer.named_buffers()["moving_variance"], at::tensor({1.5f, 100.5f}), 1e-4, 0, "variance");
  layer.forward(x * 100);
  layer.discard_statistics();
  BatchNorm::commit({&layer});
  expect_close(layer.named_buffers()["moving_mean"], at::tensor({1.5f, 10.5f}), 1e-6, 0, "after a discard");
}

TEST(BatchNorm, CommitsSeveralLayersAsEachByItself) {
  std::vector<at::Tensor> results[2];
  for (const bool together : {false, true}) {
    BatchNorm first(3, {.decay = 0.5, .epsilon = 0.1}), second(5, {.decay = 0.75}), third(2, {.decay = 0.5}),
        unused(2, {});
    at::manual_seed(8);
    first.forward(at::randn({4, 3, 2, 1}));
    for (int pass = 0; pass < 3; ++pass) second.forward(at::randn({2, 5, 3, 3}));
    third.forward(at::randn({1, 2, 1, 1}));
    const std::vector<BatchNorm*> all = {&first, &second, &unused, &third};
    if (together) BatchNorm::commit(all);
    for (BatchNorm* layer : all) {
      if (!together) BatchNorm::commit({layer});
      for (const at::Tensor& average : layer->buffers()) results[together].push_back(average);
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
}

TEST(BatchNorm, FrozenUsesItsAveragesInTraining) {
  BatchNorm layer(1, {.center = false, .train = false});
  const at::Tensor x = at::tensor({1.0f, 5.0f}).view({2, 1, 1, 1});
  expect_close(layer.forward(x), x / std::sqrt(1.001), 1e-6, 0, "averages 0 and 1");
  BatchNorm::commit({&layer});
  expect_close(layer.named_buffers()["moving_mean"], at::zeros({1}), 0, 0, "untouched");
}

TEST(Dropout, MasksAnExampleTheSameWhereverItStands) {
  Dropout layer(0.7);
  layer.on_named("BoxPredictor_0.Dropout", 5);
  const at::Tensor x = at::ones({3, 8, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor keys = at::tensor({int64_t{11}, int64_t{12}, int64_t{1} << 40}, at::kLong);
  const at::Tensor y = layer.forward(x, {keys}), reversed = layer.forward(x, {keys.flip(0)});
  EXPECT_TRUE(at::equal(y, reversed.flip(0)));
  EXPECT_TRUE(at::equal(y[1], layer.forward(x.slice(0, 1, 2), {keys.slice(0, 1, 2)})[0]));
  EXPECT_FALSE(at::equal(y[0], y[1]));
  EXPECT_NEAR(y.gt(0).to(at::kFloat).mean().item<double>(), 0.7, 0.02);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.7, 1e-6);
  Dropout other(0.7);
  other.on_named("BoxPredictor_1.Dropout", 5);
  EXPECT_FALSE(at::equal(y, other.forward(x, {keys})));
  layer.eval();
  EXPECT_TRUE(at::equal(layer.forward(x, {keys}), x));
}

Hyperparams read(const std::string& text, bool freeze = false, bool keras = false) {
  return read_hyperparams(config::parse<proto::Hyperparams>(text, "test").node(), freeze, keras);
}

TEST(Hyperparams, AreReadFromTheConfig) {
  const Hyperparams result = read(R"(
    activation: SWISH
    regularizer { l1_regularizer { weight: 0.25 } }
    initializer { random_normal_initializer { stddev: 0.5 mean: 1 } }
    batch_norm { decay: 0.9 epsilon: 0.01 scale: true center: false }
    regularize_depthwise: false)");
  EXPECT_EQ(result.activation, Activation::kSwish);
  EXPECT_EQ(result.regularizer, (Regularizer{Regularizer::Kind::kL1, 0.25}));
  EXPECT_EQ(result.depthwise_regularizer.kind, Regularizer::Kind::kNone);
  EXPECT_EQ(result.initializer.kind, Initializer::Kind::kNormal);
  ASSERT_TRUE(result.batch_norm);
  EXPECT_NEAR(result.batch_norm->decay, 0.9, 1e-6);
  EXPECT_FALSE(result.batch_norm->center);
  EXPECT_TRUE(result.batch_norm->train);
  EXPECT_FALSE(read("batch_norm {}", /*freeze=*/true).batch_norm->train);
  EXPECT_FALSE(read("").batch_norm);
  EXPECT_TRUE(read("sync_batch_norm {}").batch_norm->synchronized);
}

TEST(Hyperparams, MeanSomethingElseInKeras) {
  const auto keras = [](const std::string& text, bool freeze = false) { return read(text, freeze, /*keras=*/true); };
  EXPECT_FALSE(read("batch_norm { train: false }").batch_norm->train);
  EXPECT_TRUE(keras("batch_norm { train: false }").batch_norm->train);
  EXPECT_FALSE(keras("batch_norm {}", /*freeze=*/true).batch_norm->train);
  EXPECT_TRUE(keras("sync_batch_norm {}").batch_norm->keep_biased);
  EXPECT_FALSE(keras("batch_norm {}").batch_norm->keep_biased);
  const std::string nothing = "regularizer { l2_regularizer { weight: 0 } }";
  EXPECT_EQ(read(nothing).regularizer.kind, Regularizer::Kind::kNone);
  EXPECT_EQ(keras(nothing).regularizer.kind, Regularizer::Kind::kL2);
}

TEST(BatchNorm, MayKeepTheBiasedVariance) {
  // Of 0, 2, 4, 6 the variance is 5 over all, 20 / 3 without bias.
  for (const auto& [keep_biased, variance] : {std::pair(false, 20.0 / 3), {true, 5.0}}) {
    BatchNorm layer(1, {.decay = 0, .keep_biased = keep_biased});
    layer.forward(at::tensor({0.0f, 2.0f, 4.0f, 6.0f}).view({4, 1, 1, 1}));
    BatchNorm::commit({&layer});
    EXPECT_NEAR(layer.named_buffers()["moving_variance"].item<double>(), variance, 1e-5);
  }
}

TEST(Hyperparams, NameTheFieldThatIsWrong) {
  EXPECT_THAT([] { read("regularizer {\n l2_regularizer { weight: -1 } }"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("test:2:"), HasSubstr("l2_regularizer.weight"))));
  EXPECT_THAT([] { read("force_use_bias: true"); },
              ThrowsMessage<ConfigError>(HasSubstr("force_use_bias: is for the Keras types")));
  EXPECT_THAT([] { read("group_norm {}"); }, ThrowsMessage<ConfigError>(HasSubstr("is not supported yet: group_norm")));
  EXPECT_THAT([] { read("initializer { keras_initializer_by_name: \"he_norm\" }"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("keras_initializer_by_name"), HasSubstr("he_normal"))));
}

TEST(MultiplyAdds, AreCountedForValuesAndForShapesAlike) {
  const at::Tensor weights = at::ones({8, 2, 3, 3});  // four groups of two channels
  for (const at::Device device : {at::kCPU, at::kMeta}) {
    const MultiplyAddCounter counter;
    convolve(at::ones({2, 8, 6, 6}, device), weights.to(device), {}, {.kernel = {3, 3}, .stride = 2, .groups = 4});
    EXPECT_EQ(counter.count(), 2 * 8 * 3 * 3 * (2 * 3 * 3));
  }
}

}  // namespace
}  // namespace osprey::nn
