#include "osprey/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kRate =
    "learning_rate { manual_step_learning_rate { initial_learning_rate: 0.1 schedule { step: 3 learning_rate: 0.01 } } "
    "}";
const std::vector<std::string> kAll = {"momentum_optimizer", "rms_prop_optimizer", "adam_optimizer"};

std::unique_ptr<Optimizer> build(const std::string& text, const NamedTensors& parameters, Arithmetic arithmetic) {
  return build_optimizer(config::parse<proto::Optimizer>(text, "test.config").node(), parameters, arithmetic);
}

void step(Optimizer& optimizer, int64_t number) {
  for (const auto& entry : optimizer.parameters())
    entry.second.mutable_grad() = at::sin(entry.second.detach() + static_cast<double>(number));
  optimizer.update(number);
}

TEST(OptimizerContract, StateAndParametersAreAllThatTheNextStepNeeds) {
  for (Arithmetic arithmetic : {Arithmetic::kTf1, Arithmetic::kTf2}) {
    for (const std::string& name : kAll) {
      const std::string config = name + " { " + kRate + " }";
      const auto start = [&config, arithmetic] {
        return build(config, {{"w", at::arange(5, at::kFloat).requires_grad_(true)}}, arithmetic);
      };
      auto whole = start(), first = start(), second = start();
      for (int64_t i = 0; i < 6; ++i) step(*whole, i);
      for (int64_t i = 0; i < 3; ++i) step(*first, i);
      const auto restore = [](const NamedTensors& from, const NamedTensors& to) {
        ASSERT_EQ(from.size(), to.size());
        at::NoGradGuard no_grad;
        for (size_t i = 0; i < from.size(); ++i) {
          EXPECT_EQ(from[i].first, to[i].first);
          to[i].second.copy_(from[i].second);
        }
      };
      restore(first->state(), second->state());
      restore(first->parameters(), second->parameters());
      for (int64_t i = 3; i < 6; ++i) step(*second, i);
      EXPECT_TRUE(second->parameters()[0].second.equal(whole->parameters()[0].second)) << name;
    }
  }
}

TEST(OptimizerContract, AParameterWithoutGradientIsLeftAlone) {
  for (Arithmetic arithmetic : {Arithmetic::kTf1, Arithmetic::kTf2}) {
    for (const std::string& name : kAll) {
      const NamedTensors parameters = {{"idle", at::ones({3}).requires_grad_(true)},
                                       {"w", at::ones({3}).requires_grad_(true)}};
      const auto optimizer = build(name + " { " + kRate + " }", parameters, arithmetic);
      const auto before = optimizer->state()[0].second.clone();
      parameters[1].second.mutable_grad() = at::ones({3});
      optimizer->update(0);
      EXPECT_TRUE(parameters[0].second.equal(at::ones({3}))) << name;
      EXPECT_FALSE(parameters[1].second.equal(at::ones({3}))) << name;
      EXPECT_EQ(optimizer->state()[0].first.substr(0, 5), "idle.") << name;
      EXPECT_TRUE(optimizer->state()[0].second.equal(before)) << name;
    }
  }
}

TEST(OptimizerContract, ChannelsLastParametersMoveAsContiguousOnesDo) {
  for (const std::string& name : kAll) {
    const at::Tensor start = at::arange(48, at::kFloat).view({2, 3, 2, 4}).cos();
    const NamedTensors plain = {{"w", start.clone().requires_grad_(true)}};
    const NamedTensors last = {{"w", start.clone().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true)}};
    const auto a = build(name + " { " + kRate + " }", plain, Arithmetic::kTf1),
               b = build(name + " { " + kRate + " }", last, Arithmetic::kTf1);
    for (int64_t i = 0; i < 3; ++i) {
      step(*a, i);
      step(*b, i);
    }
    EXPECT_TRUE(plain[0].second.allclose(last[0].second, 1e-6, 1e-7)) << name;
  }
}

TEST(Momentum, TheRateActsAtOnceInTf1AndThroughTheBufferInTf2) {
  // Gradient 1 throughout, momentum 0.9, rate 0.1, then 0.01 from step 1 on.
  // TF 1: a = 1, 1.9; w = -0.1, -0.1 - 0.01 * 1.9 = -0.119.   TF 2: a = -0.1, -0.09 - 0.01 = -0.1; w = -0.1, -0.2.
  const std::string config =
      "momentum_optimizer { learning_rate { manual_step_learning_rate { initial_learning_rate: 0.1 schedule { step: 1 "
      "learning_rate: 0.01 } } } }";
  for (const auto& [arithmetic, expected] : {std::pair(Arithmetic::kTf1, -0.119), std::pair(Arithmetic::kTf2, -0.2)}) {
    const NamedTensors parameters = {{"w", at::zeros({1}).requires_grad_(true)}};
    const auto optimizer = build(config, parameters, arithmetic);
    parameters[0].second.mutable_grad() = at::ones({1});
    optimizer->update(0);
    optimizer->update(1);
    EXPECT_NEAR(parameters[0].second.item<double>(), expected, 1e-6);
  }
}

TEST(Adam, CorrectsItsFirstStepsInFloat32InTf2) {
  // With a gradient of 1 and nearly no epsilon each step is the rate, up to what float32 makes of 1 - 0.999.
  const NamedTensors parameters = {{"w", at::zeros({1}).requires_grad_(true)}};
  const auto optimizer =
      build("adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 1 } } epsilon: 1e-8 }",
            parameters, Arithmetic::kTf2);
  parameters[0].second.mutable_grad() = at::ones({1});
  optimizer->update(0);
  EXPECT_NEAR(parameters[0].second.item<double>(), -1, 5e-7);
}

TEST(OptimizerContract, AnEpsilonOfZeroIsKerassOwnInTf2) {
  for (const std::string name : {"adam_optimizer", "rms_prop_optimizer"}) {
    const NamedTensors parameters = {{"w", at::ones({1}).requires_grad_(true)}};
    const auto optimizer = build(name + " { " + kRate + " epsilon: 0 }", parameters, Arithmetic::kTf2);
    parameters[0].second.mutable_grad() = at::zeros({1});
    optimizer->update(0);
    EXPECT_EQ(parameters[0].second.item<float>(), 1) << name;
  }
}

TEST(OptimizerBuilder, ValuesOutOfRangeAndMissingPartsAreRefusedByField) {
  const std::map<std::string, std::string> wrong = {
      {"momentum_optimizer { learning_rate { constant_learning_rate {} } momentum_optimizer_value: 1 }",
       "momentum_optimizer_value: must be in [0, 1)"},
      {"rms_prop_optimizer { learning_rate { constant_learning_rate {} } decay: 1.5 }",
       "rms_prop_optimizer.decay: must be"},
      {"adam_optimizer { learning_rate { constant_learning_rate {} } epsilon: -1 }",
       "adam_optimizer.epsilon: must be >= 0"},
      {"momentum_optimizer {}", "no learning_rate is chosen"},
      {"use_moving_average: true", "no optimizer is chosen"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_THAT([&text = text] { build(text, {}, Arithmetic::kTf1); }, ThrowsMessage<ConfigError>(HasSubstr(message)))
        << text;
  EXPECT_THROW(
      build_moving_average(config::parse<proto::Optimizer>("moving_average_decay: 2").node(), {}, Arithmetic::kTf1),
      ConfigError);
}

TEST(MovingAverage, IsOnByDefaultAndSwapsInAndOutBitForBit) {
  const NamedTensors parameters = {{"w", at::ones({4}).requires_grad_(true)}};
  const auto average = build_moving_average(config::parse<proto::Optimizer>("moving_average_decay: 0.5").node(),
                                            parameters, Arithmetic::kTf1);
  ASSERT_NE(average, nullptr);
  {
    at::NoGradGuard no_grad;
    parameters[0].second.fill_(0.3f);
  }
  average->update(0);  // 0.5 * 1 + 0.5 * 0.3 = 0.65
  {
    AveragesInPlace scope(average.get());
    EXPECT_TRUE(parameters[0].second.allclose(at::full({4}, 0.65)));
  }
  EXPECT_TRUE(parameters[0].second.equal(at::full({4}, 0.3f)));
  EXPECT_EQ(build_moving_average(config::parse<proto::Optimizer>("use_moving_average: false").node(), parameters,
                                 Arithmetic::kTf1),
            nullptr);
}

}  // namespace
}  // namespace osprey::optim
