#include "osprey/optim/gradients.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

at::Tensor parameter(std::initializer_list<float> gradient) {
  at::Tensor value = at::zeros({static_cast<int64_t>(gradient.size())}).requires_grad_(true);
  value.mutable_grad() = at::tensor(gradient);
  return value;
}

NamedTensors model() {
  return {{"FeatureExtractor.Conv2d_0.weights", parameter({3})},
          {"FeatureExtractor.Conv2d_0.BatchNorm.gamma", parameter({100})},
          {"BoxPredictor_0.ClassPredictor.weights", parameter({3})},
          {"BoxPredictor_0.ClassPredictor.biases", parameter({2})}};
}

std::vector<std::string> names(const NamedTensors& named) {
  std::vector<std::string> result;
  for (const auto& entry : named) result.push_back(entry.first);
  return result;
}

config::Parsed<proto::TrainConfig> train_config(const std::string& text) {
  return config::parse<proto::TrainConfig>(text, "test.config");
}

TEST(GradientPipeline, ScalesBiasesThenFreezesThenClips) {
  // Biases 2 * 2 = 4, frozen gradient of 100 left out: norm of (3, 3, 4) = sqrt(34). Another order gives another norm:
  // clipping before the multiplier sqrt(22), clipping before freezing sqrt(10034).
  const NamedTensors all = model();
  const auto config =
      train_config("bias_grad_multiplier: 2 freeze_variables: '.*BatchNorm' gradient_clipping_by_norm: 1");
  GradientPipeline pipeline(build_variable_filter(config.node(), all).trained, gradient_options(config.node()));
  EXPECT_NEAR(pipeline.apply(pipeline.finish()).item<double>(), std::sqrt(34.0), 1e-5);
  EXPECT_NEAR(all[0].second.grad().item<double>(), 3 / std::sqrt(34.0), 1e-6);
  EXPECT_NEAR(all[3].second.grad().item<double>(), 4 / std::sqrt(34.0), 1e-6);
  EXPECT_EQ(all[1].second.grad().item<double>(), 100);
}

TEST(GradientPipeline, ClipsEachVariableByItsOwnNormWhenAsked) {
  const NamedTensors all = {{"a.weights", parameter({3, 4})}, {"b.weights", parameter({0.3f, 0.4f})}};
  const auto config = train_config("gradient_clipping_by_norm: 1 gradient_clipping_mode: PER_VARIABLE");
  GradientPipeline pipeline(all, gradient_options(config.node()));
  EXPECT_NEAR(pipeline.apply(pipeline.finish()).item<double>(), std::sqrt(25.25), 1e-5);
  EXPECT_TRUE(all[0].second.grad().allclose(at::tensor({0.6f, 0.8f})));
  EXPECT_TRUE(all[1].second.grad().allclose(at::tensor({0.3f, 0.4f})));
}

TEST(GradientPipeline, WithoutOptionsGradientsStayAsTheyAre) {
  const NamedTensors all = {{"a.biases", parameter({3, 4})}, {"b.weights", at::zeros({2}).requires_grad_(true)}};
  GradientPipeline pipeline(all, {});
  EXPECT_NEAR(pipeline.apply(pipeline.finish()).item<double>(), 5, 1e-6);
  EXPECT_TRUE(all[0].second.grad().equal(at::tensor({3.f, 4.f})));
}

TEST(GradientPipeline, ANormThatIsNotFiniteSpoilsEveryGradient) {
  const NamedTensors all = {{"a.weights", parameter({INFINITY})}, {"b.weights", parameter({1})}};
  GradientOptions options;
  options.clip_norm = 1;
  GradientPipeline pipeline(all, options);
  pipeline.apply(pipeline.finish());
  EXPECT_TRUE(all[1].second.grad().isnan().all().item<bool>());
}

TEST(VariableFilter, PatternsMatchFromTheStartOfTheTensorflowName) {
  const auto filtered =
      filter_variables(model(), {.update = {}, .freeze = {"FeatureExtractor/Conv2d_0", "Classifier"}});
  EXPECT_EQ(names(filtered.trained), (std::vector<std::string>{"BoxPredictor_0.ClassPredictor.weights",
                                                               "BoxPredictor_0.ClassPredictor.biases"}));
  EXPECT_EQ(filtered.unused_patterns, std::vector<std::string>{"Classifier"});
  // What matches from a start is not searched elsewhere.
  const NamedTensors two = {{"Conv.weights", parameter({1})}, {"Box.Conv.weights", parameter({1})}};
  EXPECT_EQ(names(filter_variables(two, {.update = {}, .freeze = {"Conv"}}).trained),
            std::vector<std::string>{"Box.Conv.weights"});
}

TEST(VariableFilter, APatternThatMatchesFromNoStartIsSearchedAnywhere) {
  const auto filtered = filter_variables(model(), {.update = {"Conv2d_0", "Class"}, .freeze = {"BatchNorm"}});
  EXPECT_EQ(names(filtered.frozen), std::vector<std::string>{"FeatureExtractor.Conv2d_0.BatchNorm.gamma"});
  EXPECT_EQ(filtered.trained.size(), 3u);
  EXPECT_TRUE(filtered.unused_patterns.empty());
}

TEST(VariableFilter, FreezeWinsOverUpdate) {
  const NamedTensors all = model();
  const auto filtered = filter_variables(all, {.update = {"BoxPredictor"}, .freeze = {".*/biases"}});
  EXPECT_EQ(names(filtered.trained), std::vector<std::string>{"BoxPredictor_0.ClassPredictor.weights"});
  EXPECT_TRUE(all[2].second.requires_grad());
  EXPECT_FALSE(all[0].second.requires_grad());
  EXPECT_FALSE(all[3].second.requires_grad());
}

TEST(VariableFilter, AFrozenVariableIsNeitherUpdatedNorRegularisedNorAveraged) {
  NamedTensors all = {{"frozen.weights", at::ones({2}).requires_grad_(true)},
                      {"free.weights", at::ones({2}).requires_grad_(true)}};
  const auto filtered = filter_variables(all, {.update = {}, .freeze = {"frozen"}});
  (all[0].second.square().sum() + all[1].second.square().sum()).backward();  // an L2 penalty on both
  const auto config = config::parse<proto::Optimizer>(
      "momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.1 } } }");
  const auto optimizer = build_optimizer(config.node(), filtered.trained, Arithmetic::kTf1);
  const auto average = build_moving_average(config.node(), filtered.trained, Arithmetic::kTf1);
  optimizer->update(0);
  average->update(0);
  EXPECT_FALSE(all[0].second.grad().defined());
  EXPECT_TRUE(all[0].second.equal(at::ones({2})));
  EXPECT_TRUE(all[1].second.allclose(at::full({2}, 0.8)));
  average->swap();
  EXPECT_TRUE(all[0].second.equal(at::ones({2})));
  EXPECT_EQ(average->state().size(), 1u);
}

TEST(VariableFilter, ABrokenPatternAndNothingLeftAreConfigErrors) {
  const auto broken = train_config("freeze_variables: 'a'\nfreeze_variables: '('");
  EXPECT_THAT([&] { build_variable_filter(broken.node(), model()); },
              ThrowsMessage<ConfigError>(HasSubstr("freeze_variables[1]: '(' is not a regular expression")));
  const auto star = train_config("update_trainable_variables: '*'");
  EXPECT_THAT([&] { build_variable_filter(star.node(), model()); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("update_trainable_variables[0]: '*' is not a regular"),
                                               Not(HasSubstr("Mismatched")))));
  const auto all = train_config("freeze_variables: '.*'");
  EXPECT_THAT([&] { build_variable_filter(all.node(), model()); },
              ThrowsMessage<ConfigError>(HasSubstr("leaves no variable to train")));
}

TEST(GradientPipeline, FiniteSeesNanInfinityAndNothingElse) {
  const auto finite = [](const NamedTensors& all) { return GradientPipeline(all, {}).finish().finite.item<bool>(); };
  EXPECT_TRUE(finite({{"a", parameter({1e30f, -1e30f})}}));
  EXPECT_FALSE(finite({{"a", parameter({1, NAN})}, {"b", parameter({1})}}));
  EXPECT_FALSE(finite({{"a", parameter({1})}, {"b", parameter({-INFINITY})}}));
  EXPECT_TRUE(finite({}));
}

TEST(GradientPipeline, DividesByTheNormalizerButNeverByLessThanOneAndByTheScale) {
  const NamedTensors all = {{"a", parameter({8, -6})}};
  const auto gradient = [&](const at::Tensor& normalizer, const at::Tensor& scale) {
    all[0].second.mutable_grad() = at::tensor({8.0f, -6.0f});
    const GradientNorms found = GradientPipeline(all, {}).finish(normalizer, scale);
    EXPECT_NEAR(found.norms[0].item<double>(), all[0].second.grad().to(at::kDouble).norm().item<double>(), 1e-12);
    return all[0].second.grad()[0].item<float>();
  };
  EXPECT_EQ(gradient(at::full({}, 4), {}), 2);
  EXPECT_EQ(gradient(at::full({}, 0), {}), 8);
  EXPECT_EQ(gradient(at::full({}, 4), at::full({}, 8.0f)), 0.25f);
  EXPECT_EQ(gradient({}, at::full({}, 8.0f)), 1);
}

TEST(GradientPipeline, AddsTheGradientsOfPenaltiesAfterTheDivision) {
  using nn::Regularizer;
  const auto weight = [](std::initializer_list<float> values) { return at::tensor(values).requires_grad_(true); };
  const NamedTensors trained = {{"l2", weight({1, -2, 3})},
                                {"l1", weight({2, 0, -3})},
                                {"none", weight({5})},
                                {"without_gradient", weight({4})},
                                {"unused", weight({4})}};
  const at::Tensor frozen = at::tensor({4.0f});
  for (size_t i = 0; i < 3; ++i) trained[i].second.mutable_grad() = at::full_like(trained[i].second, 4).detach();
  GradientPipeline pipeline(trained, {},
                            {{trained[0].second, {Regularizer::Kind::kL2, 0.5}},
                             {trained[1].second, {Regularizer::Kind::kL1, 0.25}},
                             {trained[3].second, {Regularizer::Kind::kL2, 0.5}},
                             {trained[4].second, {Regularizer::Kind::kNone, 1}},
                             {frozen, {Regularizer::Kind::kL2, 0.5}}});
  for (int repeat = 0; repeat < 2; ++repeat) {
    const GradientNorms found = pipeline.finish(at::full({}, 2));
    EXPECT_EQ(found.norms.size(0), 4);
    if (repeat > 0) continue;
    EXPECT_TRUE(trained[0].second.grad().equal(at::tensor({2.5f, 1.0f, 3.5f})));
    EXPECT_TRUE(trained[1].second.grad().equal(at::tensor({2.25f, 2.0f, 1.75f})));
    EXPECT_TRUE(trained[2].second.grad().equal(at::tensor({2.0f})));
    EXPECT_TRUE(trained[3].second.grad().equal(at::tensor({2.0f})));
    EXPECT_NEAR(found.norms[0].item<double>(), std::sqrt(2.5 * 2.5 + 1 + 3.5 * 3.5), 1e-12);
    EXPECT_FLOAT_EQ(found.penalty.item<float>(), 3.5f + 1.25f + 4 + 4);  // of frozen weights, too
  }
  EXPECT_TRUE(trained[0].second.grad().equal(at::tensor({1.75f, -0.5f, 3.25f})));
  EXPECT_FALSE(trained[4].second.grad().defined());
  EXPECT_FALSE(frozen.grad().defined());
}

TEST(Arithmetic, FollowsTheExtractorTheCheckpointVersionAndTheOverride) {
  const auto of = [](const std::string& text) {
    return arithmetic_of(config::parse<proto::TrainEvalPipelineConfig>(text).node());
  };
  EXPECT_EQ(of("model { ssd { feature_extractor { type: 'ssd_mobilenet_v1' } } }"), Arithmetic::kTf1);
  EXPECT_EQ(of("model { ssd { feature_extractor { type: 'ssd_mobilenet_v2_fpn_keras' } } }"), Arithmetic::kTf2);
  EXPECT_EQ(of("model { center_net {} }"), Arithmetic::kTf2);
  EXPECT_EQ(of("train_config { fine_tune_checkpoint_version: V2 }"), Arithmetic::kTf2);
  EXPECT_EQ(of("train_config { fine_tune_checkpoint_version: V2 } arithmetic: TF1"), Arithmetic::kTf1);
}

}  // namespace
}  // namespace osprey::optim
