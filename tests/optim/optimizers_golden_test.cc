#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"
#include "support/golden.h"

namespace osprey::optim {
namespace {

using testing::expect_close;
using testing::tensor;

/// The quadratic problem of the file under one optimizer.
class Problem {
 public:
  Problem(const nlohmann::json& file, const std::string& config, Arithmetic arithmetic)
      : curvature_(tensor(file.at("A"))),
        centre_(tensor(file.at("T"))),
        x_(tensor(file.at("x0")).requires_grad_(true)) {
    const auto parsed = config::parse<proto::Optimizer>(config);
    optimizer_ = build_optimizer(parsed.node(), {{"x", x_}}, arithmetic);
    average_ = build_moving_average(parsed.node(), {{"x", x_}}, arithmetic);
  }

  void set_gradient() { x_.mutable_grad() = curvature_ * (x_.detach() - centre_); }
  void step(int64_t step) {
    optimizer_->update(step);
    if (average_) average_->update(step);
  }

  /// By TensorFlow's name: "x", "x/Momentum", "beta1_power".
  std::map<std::string, at::Tensor> variables() const {
    NamedTensors all = optimizer_->state();
    all.emplace_back("x", x_.detach());
    if (average_)
      for (const auto& entry : average_->state()) all.push_back(entry);
    std::map<std::string, at::Tensor> named;
    for (auto& [name, value] : all) {
      std::replace(name.begin(), name.end(), '.', '/');
      named.emplace(name, value);
    }
    return named;
  }
  at::Tensor x() const { return x_; }

 private:
  at::Tensor curvature_, centre_, x_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MovingAverage> average_;
};

// Ten steps of float32 arithmetic in another order of operations; the gradient is a difference of numbers of order one.
constexpr double kRelative = 1e-5, kAbsolute = 1e-6;

TEST(Optimizers, Tf1StepsAndSlotsAreThoseOfTheOriginal) {
  int cases = 0;
  for (const auto& path : testing::golden_files("optimizers.json")) {
    const auto file = testing::read_json(path);
    for (const auto& c : file.at("tf1")) {
      const std::string name = c.at("name");
      Problem problem(file, c.at("config"), Arithmetic::kTf1);
      for (size_t step = 0; step <= c.at("gradients").size(); ++step) {
        const auto variables = problem.variables();
        EXPECT_EQ(variables.size(), c.at("variables").size()) << name;
        for (const auto& [variable, values] : c.at("variables").items()) {
          ASSERT_TRUE(variables.count(variable)) << name << " has no " << variable;
          expect_close(variables.at(variable), tensor(values.at(step)), kRelative, kAbsolute,
                       fmt::format("{} {} before step {}", name, variable, step));
        }
        if (step == c.at("gradients").size()) break;
        problem.set_gradient();
        expect_close(problem.x().grad(), tensor(c.at("gradients").at(step)), kRelative, 10 * kAbsolute,
                     name + " gradient");
        problem.step(static_cast<int64_t>(step));
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(Optimizers, Tf2StepsAndAveragesAreThoseOfTheOriginal) {
  int cases = 0;
  for (const auto& path : testing::golden_files("optimizers.json")) {
    const auto file = testing::read_json(path);
    for (const auto& c : file.at("tf2")) {
      const std::string name = c.at("name");
      Problem problem(file, c.at("config"), Arithmetic::kTf2);
      for (size_t step = 0; step < c.at("gradients").size(); ++step) {
        expect_close(problem.x(), tensor(c.at("x").at(step)), kRelative, kAbsolute,
                     fmt::format("{} before step {}", name, step));
        problem.set_gradient();
        problem.step(static_cast<int64_t>(step));
        if (c.contains("moving_average_after_each_step"))
          expect_close(problem.variables().at("x/ExponentialMovingAverage"),
                       tensor(c.at("moving_average_after_each_step").at(step)), kRelative, kAbsolute,
                       fmt::format("{} average after step {}", name, step));
      }
      expect_close(problem.x(), tensor(c.at("x").back()), kRelative, kAbsolute, name + " at the end");
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(Gradients, GlobalNormClippingIsThatOfTheOriginal) {
  int cases = 0;
  for (const auto& path : testing::golden_files("tf_primitives.json")) {
    const auto file = testing::read_json(path);
    if (!file.contains("clip_by_global_norm")) continue;  // the bundled selection may hold other sections only
    const auto& c = file.at("clip_by_global_norm");
    for (const auto& [key, expected] : c.items()) {
      if (key == "in" || key == "norm") continue;
      ASSERT_EQ(key.substr(0, 4), "clip") << "unknown key";
      NamedTensors parameters;
      for (const auto& values : c.at("in")) {
        const at::Tensor gradient = tensor(values);
        parameters.emplace_back("weights", at::zeros_like(gradient).requires_grad_(true));
        parameters.back().second.mutable_grad() = gradient;
      }
      GradientPipeline pipeline(parameters, {.clip_norm = std::stod(key.substr(4))});
      const at::Tensor norm = pipeline.apply(pipeline.finish());
      expect_close(norm.reshape({}), tensor(c.at("norm")), 1e-5, 0, "norm");
      ASSERT_EQ(parameters.size(), expected.size());
      for (size_t i = 0; i < parameters.size(); ++i)
        expect_close(parameters[i].second.grad(), tensor(expected[i]), 1e-5, 0, key);
      ++cases;
    }
  }
  if (cases == 0) GTEST_SKIP() << testing::kNoTestData;
}

}  // namespace
}  // namespace osprey::optim
