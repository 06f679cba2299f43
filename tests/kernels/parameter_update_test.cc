#include "osprey/kernels/parameter_update.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

/// Parameters of several layouts and sizes, one of them larger than what a thread takes at a time.
Tensors parameters(uint64_t seed) {
  at::manual_seed(seed);
  return {at::randn({3}),
          at::randn({}),
          at::randn({8, 5, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast),
          at::randn({16, 4, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast),
          at::randn({0, 4}),
          at::randn({70001})};
}

Tensors doubles(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& t : tensors) result.push_back(t.to(at::kDouble));
  return result;
}

void expect_all_close(const Tensors& ours, const Tensors& exact, const std::string& what) {
  for (size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], exact[i], 2e-6, 1e-6, what + std::to_string(i));
}

TEST(ParameterUpdate, MomentumEqualsItsDefinition) {
  const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
  Tensors w = doubles(values), b = doubles(a);
  update_parameters(UpdateRule::kMomentum, {values, gradients, {a}}, at::tensor({0.9f, -0.1f, 1.5f}));
  for (size_t i = 0; i < w.size(); ++i) {
    b[i] = 0.9 * b[i] - 0.1 * gradients[i].to(at::kDouble);
    w[i] = w[i] + 1.5 * b[i];
  }
  expect_all_close(a, b, "accumulator ");
  expect_all_close(values, w, "value ");
}

TEST(ParameterUpdate, RmsPropEqualsItsDefinition) {
  for (const bool outside : {false, true}) {
    const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
    Tensors squares = parameters(4);
    for (at::Tensor& s : squares) s.abs_();
    Tensors w = doubles(values), s = doubles(squares), b = doubles(a);
    update_parameters(outside ? UpdateRule::kRmsPropEpsilonOutside : UpdateRule::kRmsProp,
                      {values, gradients, {squares, a}}, at::tensor({0.9f, 0.8f, 0.01f, 0.3f}));
    for (size_t i = 0; i < w.size(); ++i) {
      const at::Tensor g = gradients[i].to(at::kDouble);
      s[i] = 0.9 * s[i] + 0.1 * g * g;
      b[i] = 0.8 * b[i] + 0.01 * g / (outside ? s[i].sqrt() + 0.3 : (s[i] + 0.3).sqrt());
      w[i] = w[i] - b[i];
    }
    expect_all_close(squares, s, "square ");
    expect_all_close(a, b, "accumulator ");
    expect_all_close(values, w, "value ");
  }
}

TEST(ParameterUpdate, AdamEqualsItsDefinition) {
  const Tensors values = parameters(1), gradients = parameters(2), means = parameters(3);
  Tensors variances = parameters(4);
  for (at::Tensor& v : variances) v.abs_();
  Tensors w = doubles(values), m = doubles(means), v = doubles(variances);
  update_parameters(UpdateRule::kAdam, {values, gradients, {means, variances}},
                    at::tensor({0.9f, 0.99f, 0.02f, 1e-3f}));
  for (size_t i = 0; i < w.size(); ++i) {
    const at::Tensor g = gradients[i].to(at::kDouble);
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.99 * v[i] + 0.01 * g * g;
    w[i] = w[i] - 0.02 * m[i] / (v[i].sqrt() + 1e-3);
  }
  expect_all_close(means, m, "mean ");
  expect_all_close(variances, v, "variance ");
  expect_all_close(values, w, "value ");
}

TEST(ParameterUpdate, TakesGradientsOfAnotherLayout) {
  const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
  Tensors same_values, same_a, contiguous;
  for (size_t i = 0; i < values.size(); ++i) {
    same_values.push_back(values[i].clone());
    same_a.push_back(a[i].clone());
    contiguous.push_back(gradients[i].contiguous());
  }
  update_parameters(UpdateRule::kMomentum, {values, gradients, {a}}, at::tensor({0.9f, 1.0f, -0.1f}));
  update_parameters(UpdateRule::kMomentum, {same_values, contiguous, {same_a}}, at::tensor({0.9f, 1.0f, -0.1f}));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(values[i], same_values[i])) << i;
}

TEST(ParameterUpdate, AverageMovesTowardsTheParameter) {
  for (const double rate : {0.1, 0.75}) {
    const Tensors averages = parameters(1), values = parameters(2);
    Tensors exact = doubles(averages);
    update_parameters(UpdateRule::kAverage, {averages, values}, at::full({1}, rate));
    for (size_t i = 0; i < exact.size(); ++i) exact[i] = exact[i] + rate * (values[i].to(at::kDouble) - exact[i]);
    expect_all_close(averages, exact, "average ");
  }
}

TEST(ParameterUpdate, LeavesEverythingAloneUnlessItIsToProceed) {
  const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3), before = parameters(1);
  const at::Tensor numbers = at::tensor({0.9f, 1.0f, -0.1f});
  update_parameters(UpdateRule::kMomentum, {values, gradients, {a}}, numbers, at::zeros({}, at::kBool));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(values[i], before[i])) << i;
  update_parameters(UpdateRule::kMomentum, {values, gradients, {a}}, numbers, at::ones({}, at::kBool));
  EXPECT_FALSE(at::equal(values[0], before[0]));
}

TEST(ParameterUpdate, TellsTheGraphOfGradientsWhatItWrites) {
  const auto versions = [](const Tensors& tensors) {
    std::vector<int64_t> result;
    for (const at::Tensor& tensor : tensors) result.push_back(tensor._version());
    return result;
  };
  const Tensors written = {at::ones({3}), at::ones({3})}, read = {at::ones({3})};
  const std::vector<int64_t> first = versions(written), kept = versions(read);
  update_parameters(UpdateRule::kMomentum, {{written[0]}, read, {{written[1]}}}, at::tensor({0.9f, 1.0f, -0.1f}));
  const std::vector<int64_t> second = versions(written);
  finish_gradients(written, {read[0], read[0]}, at::zeros({2, 2}));
  const std::vector<int64_t> third = versions(written);
  scale_tensors(written, at::ones({2}));
  const std::vector<int64_t> last = versions(written);
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_LT(first[i], second[i]) << i;
    EXPECT_LT(second[i], third[i]) << i;
    EXPECT_LT(third[i], last[i]) << i;
  }
  EXPECT_EQ(versions(read), kept);
}

TEST(ParameterUpdate, TakesTensorsOfTheInferenceMode) {
  const auto ones = [] {
    const c10::InferenceMode scope;
    return at::ones({3});
  };
  const at::Tensor values = ones();
  scale_tensors({values}, at::full({1}, 2.0f));
  EXPECT_TRUE(at::equal(values, at::full({3}, 2.0f)));
}

TEST(ParameterUpdate, TakesNumbersThatLieApart) {
  const auto apart = [](const at::Tensor& numbers) {
    return at::stack({numbers, at::full_like(numbers, 7)}, 1).select(1, 0);
  };
  const at::Tensor numbers = at::tensor({0.9f, -0.1f, 1.5f}), factors = at::tensor({2.0f, 3.0f});
  Tensors results;
  for (const bool lie_apart : {false, true}) {
    const Tensors tensors = {at::arange(5, at::kFloat), at::ones({5})};
    update_parameters(UpdateRule::kMomentum, {{tensors[0]}, {at::ones({5})}, {{tensors[1]}}},
                      lie_apart ? apart(numbers) : numbers);
    scale_tensors(tensors, lie_apart ? apart(factors) : factors);
    results.push_back(at::cat(tensors));
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

TEST(ParameterUpdate, TakesManyTensors) {
  Tensors values, gradients, exact;
  for (int64_t i = 0; i < 300; ++i) {
    values.push_back(at::full({i % 7 * 1000}, i, at::kFloat));
    gradients.push_back(at::ones({i % 7 * 1000}));
    exact.push_back(at::full({i % 7 * 1000}, i + 0.5, at::kFloat));
  }
  update_parameters(UpdateRule::kAverage, {values, exact}, at::ones({1}));
  for (size_t i = 0; i < values.size(); ++i) ASSERT_TRUE(at::equal(values[i], exact[i])) << i;
  const at::Tensor norms = tensor_norms(gradients);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(norms[static_cast<int64_t>(i)].item<double>(), std::sqrt(i % 7 * 1000.0), 1e-9) << i;
  scale_tensors(gradients, at::arange(300, at::kFloat));
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(at::equal(gradients[i], at::full_like(gradients[i], static_cast<double>(i)))) << i;
}

TEST(TensorNorms, OfThousandsOfTensorsAreInTheirOrder) {
  for (const int64_t count : {991, 992, 993, 1985}) {  // a launch of a device's kernel takes 992
    Tensors tensors;
    for (int64_t i = 0; i < count; ++i) tensors.push_back(at::full({i % 4}, i, at::kFloat));
    const at::Tensor norms = tensor_norms(tensors);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_NEAR(norms[i].item<double>(), static_cast<double>(i) * std::sqrt(i % 4), 1e-9) << i << " of " << count;
  }
}

TEST(TensorNorms, AreFiniteExactlyWhereAllNumbersAre) {
  const at::Tensor norms = tensor_norms({at::full({100}, 3e38f), at::tensor({1.0f, NAN}), at::tensor({INFINITY}),
                                         at::zeros({0}), at::tensor({3.0f, -4.0f})});
  EXPECT_NEAR(norms[0].item<double>(), 3e39, 1e33);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(std::isfinite(norms[i].item<double>()), i != 1 && i != 2) << i;
  EXPECT_EQ(norms[3].item<double>(), 0);
  EXPECT_DOUBLE_EQ(norms[4].item<double>(), 5);
  EXPECT_EQ(tensor_norms({}).size(0), 0);
}

TEST(TensorNorms, DoNotDependOnTheNumberOfThreads) {
  const Tensors tensors = parameters(5);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = tensor_norms(tensors);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(alone, tensor_norms(tensors)));
  at::set_num_threads(threads);
}

TEST(FinishGradients, DividesPenalisesAndMeasuresInAnyLayout) {
  at::manual_seed(3);
  Tensors values, gradients, exact;
  at::Tensor penalties = at::zeros({300, 2});
  const at::Tensor divisor = at::full({}, 7.0f);
  double penalty = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const auto shape = i == 17 ? std::vector<int64_t>{8, 5, 3, 3} : std::vector<int64_t>{i % 7 * 1000 + i % 3};
    values.push_back(at::randn(shape));
    if (i == 17) values[17] = values[17].contiguous(at::MemoryFormat::ChannelsLast);
    if (i == 20) values[20].zero_();
    gradients.push_back(at::randn(shape));
    const double l1 = i % 4 == 0 ? 0.25 : 0, l2 = i % 4 == 1 ? 0.5 : 0;
    penalties[i][0] = l1;
    penalties[i][1] = l2;
    exact.push_back(gradients.back() / 7 + l1 * values.back().sign() + l2 * values.back());
    const at::Tensor numbers = values.back().to(at::kDouble);
    penalty += (l1 * numbers.abs() + l2 / 2 * numbers.square()).sum().item<double>();
  }
  const FinishedGradients finished = finish_gradients(gradients, values, penalties, divisor);
  const at::Tensor& norms = finished.norms;
  EXPECT_NEAR(finished.penalty.item<double>(), penalty, 1e-9 * penalty);
  for (size_t i = 0; i < values.size(); ++i) {
    expect_close(gradients[i], exact[i], 1e-6, 1e-6, "gradient " + std::to_string(i));
    EXPECT_DOUBLE_EQ(norms[static_cast<int64_t>(i)].item<double>(), tensor_norms({gradients[i]})[0].item<double>())
        << i;
  }
  const Tensors before = {gradients[8].clone()};
  finish_gradients({gradients[8]}, {values[8]}, at::zeros({1, 2}));
  EXPECT_TRUE(gradients[8].equal(before[0]));
  const FinishedGradients none = finish_gradients({}, {}, at::zeros({0, 2}));
  EXPECT_EQ(none.norms.size(0), 0);
  EXPECT_EQ(none.penalty.item<double>(), 0);
}

TEST(FinishGradients, LeavesValuesWithoutPenaltyUnread) {
  Tensors gradients = {at::ones({20}), at::ones({20})};
  const Tensors values = {at::full({20}, NAN), at::full({20}, INFINITY)};
  const at::Tensor penalties = at::tensor({0.0f, 0.0f, 0.0f, 0.5f}).view({2, 2});
  const auto [norms, penalty] = finish_gradients(gradients, values, penalties);
  EXPECT_TRUE(gradients[0].equal(at::ones({20})));
  EXPECT_TRUE(norms[0].isfinite().item<bool>());
  EXPECT_FALSE(norms[1].isfinite().item<bool>());
  EXPECT_FALSE(penalty.isfinite().item<bool>());
}

TEST(FinishGradients, NamesWhatDoesNotFit) {
  const Tensors gradients = {at::zeros({2, 3})}, other = {at::zeros({3, 2})};
  const auto message = [&](const Tensors& g, const Tensors& w, const at::Tensor& penalties, const at::Tensor& divisor) {
    try {
      finish_gradients(g, w, penalties, divisor);
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  EXPECT_THAT(message(gradients, {}, at::zeros({1, 2}), {}), HasSubstr("expected a parameter per gradient, 1, got 0"));
  EXPECT_THAT(message(gradients, other, at::zeros({1, 2}), {}), HasSubstr("must be like the gradient, [2, 3], got"));
  EXPECT_THAT(message(gradients, gradients, at::zeros({2}), {}), HasSubstr("expected 1 x 2 float32 penalties, got"));
  EXPECT_THAT(message(gradients, gradients, at::zeros({1, 2}), at::zeros({2})),
              HasSubstr("divisor must be one float32"));
}

TEST(ParameterUpdate, NamesWhatDoesNotFit) {
  const Tensors values = {at::zeros({2, 3})}, gradients = {at::zeros({2, 3})}, other = {at::zeros({3, 2})};
  const auto message = [&](const Tensors& w, const Tensors& g, const std::vector<Tensors>& slots,
                           int64_t numbers) -> std::string {
    try {
      update_parameters(UpdateRule::kMomentum, {w, g, slots}, at::ones({numbers}));
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_THAT(message(values, other, {gradients}, 3), HasSubstr("gradients must be like the parameter, [2, 3]"));
  EXPECT_THAT(message(values, gradients, {other}, 3), HasSubstr("slots must be like"));
  EXPECT_THAT(message(values, gradients, {}, 3), HasSubstr("expected 1 slots"));
  EXPECT_THAT(message(values, gradients, {{}}, 3), HasSubstr("expected 1 slots with a tensor per parameter, 1"));
  EXPECT_THAT(message(values, gradients, {gradients}, 2), HasSubstr("expected 3 float32 numbers"));
  EXPECT_THAT(message({at::zeros({4}, at::kDouble)}, {at::zeros({4})}, {{at::zeros({4})}}, 3),
              HasSubstr("parameters must be float32"));
  EXPECT_THAT(message({at::zeros({4, 4}).narrow(1, 0, 2)}, {at::zeros({4, 2})}, {{at::zeros({4, 2})}}, 3),
              HasSubstr("without holes"));
}

}  // namespace
}  // namespace osprey::kernels
