#include "osprey/kernels/optimizer_update.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
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

TEST(OptimizerUpdate, MomentumEqualsItsDefinition) {
  const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
  Tensors w = doubles(values), b = doubles(a);
  momentum_update({values, gradients, {a}}, 0.9, -0.1, 1.5);
  for (size_t i = 0; i < w.size(); ++i) {
    b[i] = 0.9 * b[i] - 0.1 * gradients[i].to(at::kDouble);
    w[i] = w[i] + 1.5 * b[i];
  }
  expect_all_close(a, b, "accumulator ");
  expect_all_close(values, w, "value ");
}

TEST(OptimizerUpdate, RmsPropEqualsItsDefinition) {
  for (const bool outside : {false, true}) {
    const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
    Tensors squares = parameters(4);
    for (at::Tensor& s : squares) s.abs_();
    Tensors w = doubles(values), s = doubles(squares), b = doubles(a);
    rms_prop_update({values, gradients, {squares, a}},
                    {.rho = 0.9, .momentum = 0.8, .rate = 0.01, .epsilon = 0.3, .epsilon_outside = outside});
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

TEST(OptimizerUpdate, AdamEqualsItsDefinition) {
  const Tensors values = parameters(1), gradients = parameters(2), means = parameters(3);
  Tensors variances = parameters(4);
  for (at::Tensor& v : variances) v.abs_();
  Tensors w = doubles(values), m = doubles(means), v = doubles(variances);
  adam_update({values, gradients, {means, variances}}, {.beta1 = 0.9, .beta2 = 0.99, .rate = 0.02, .epsilon = 1e-3});
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

TEST(OptimizerUpdate, TakesGradientsOfAnotherLayout) {
  const Tensors values = parameters(1), gradients = parameters(2), a = parameters(3);
  Tensors same_values, same_a, contiguous;
  for (size_t i = 0; i < values.size(); ++i) {
    same_values.push_back(values[i].clone());
    same_a.push_back(a[i].clone());
    contiguous.push_back(gradients[i].contiguous());
  }
  momentum_update({values, gradients, {a}}, 0.9, 1, -0.1);
  momentum_update({same_values, contiguous, {same_a}}, 0.9, 1, -0.1);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(values[i], same_values[i])) << i;
}

TEST(OptimizerUpdate, NamesWhatDoesNotFit) {
  const Tensors values = {at::zeros({2, 3})}, gradients = {at::zeros({2, 3})}, other = {at::zeros({3, 2})};
  const auto fails = [](const char* text) { return ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr(text)); };
  EXPECT_THAT(
      [&] {
        momentum_update({values, other, {gradients}}, 0, 1, 1);
      },
      fails("gradients must be like the parameter, [2, 3]"));
  EXPECT_THAT([&] { momentum_update({values, gradients, {other}}, 0, 1, 1); }, fails("slots must be like"));
  EXPECT_THAT([&] { momentum_update({values, gradients}, 0, 1, 1); }, fails("expected 1 slots"));
  EXPECT_THAT([&] { momentum_update({values, gradients, {{}}}, 0, 1, 1); }, fails("expected a slot per parameter"));
  EXPECT_FALSE(fuses_update({at::zeros({4}, at::kDouble)}));
  EXPECT_FALSE(fuses_update({at::zeros({4, 4}).narrow(1, 0, 2)}));
}

}  // namespace
}  // namespace osprey::kernels
