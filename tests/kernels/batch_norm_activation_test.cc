#include "osprey/kernels/batch_norm_activation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;

struct Case {
  int64_t batch, depth, height, width;
};
const Epilogue kEpilogues[] = {{0, 6}, {.curve = Epilogue::Curve::kSwish}, {.curve = Epilogue::Curve::kHardSwish}};
constexpr Case kCases[] = {{2, 3, 1, 1},    {1, 17, 5, 7},  {4, 33, 37, 29}, {2, 128, 40, 40},
                           {3, 1, 9, 9},    {8, 64, 3, 2},  {2, 24, 21, 10}, {1, 288, 5, 9},
                           {1, 2048, 3, 3}, {1, 8, 70, 70}, {1, 40, 90, 70}};

at::Tensor map_of(const Case& item, double mean, at::ScalarType type) {
  at::manual_seed(5);
  return at::randn({item.batch, item.depth, item.height, item.width})
      .add_(mean)
      .to(type)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

/// The reference: the definition, in double precision.
BatchNormed reference(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                      const Epilogue& range) {
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor mean = exact.mean({0, 2, 3}), centered = exact - mean.view({1, -1, 1, 1});
  const at::Tensor inverse = (centered.square().mean({0, 2, 3}) + epsilon).rsqrt();
  const auto channel = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
  at::Tensor y = centered * channel(inverse);
  if (gamma.defined()) y = y * channel(gamma);
  if (beta.defined()) y = y + channel(beta);
  if (range.curve == Epilogue::Curve::kSwish) return {at::silu(y), mean, inverse};
  if (range.curve == Epilogue::Curve::kHardSwish) return {at::hardswish(y), mean, inverse};
  return {y.clamp(range.low, range.high), mean, inverse};
}

TEST(BatchNormActivation, EqualsItsDefinition) {
  for (const Case& item : kCases) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor x = map_of(item, 20, type), gamma = at::linspace(0.5, 2, item.depth),
                       beta = at::linspace(-1, 3, item.depth);
      for (const Epilogue& range : kEpilogues) {
        const BatchNormed ours = batch_norm_activation(x, gamma, beta, 1e-3, range),
                          exact = reference(x, gamma, beta, 1e-3, range);
        EXPECT_EQ(ours.y.scalar_type(), type);
        expect_close(ours.y, exact.y, type == at::kFloat ? 1e-5 : 4e-3, 1e-4, "y");
        expect_close(ours.mean, exact.mean, 1e-6, 0, "mean");
        expect_close(ours.inverse_deviation, exact.inverse_deviation, 1e-4, 0, "inverse deviation");
      }
    }
  }
}

void expect_gradients(const Case& item, bool affine, const Epilogue& range) {
  const at::Tensor x = map_of(item, 3, at::kFloat);
  at::Tensor gamma, beta;
  if (affine) gamma = at::linspace(0.5, 2, item.depth), beta = at::linspace(-1, 3, item.depth);
  const at::Tensor wanted = at::randn_like(x);
  const BatchNormGradients ours =
      batch_norm_activation_backward(wanted, x, gamma, beta, batch_norm_activation(x, gamma, beta, 1e-3, range), range);

  const at::Tensor exact = x.to(at::kDouble).requires_grad_();
  at::Tensor exact_gamma, exact_beta;
  if (affine) exact_gamma = gamma.to(at::kDouble).requires_grad_(), exact_beta = beta.to(at::kDouble).requires_grad_();
  (reference(exact, exact_gamma, exact_beta, 1e-3, range).y * wanted).sum().backward();
  expect_close(ours.x, exact.grad(), 1e-3, 2e-4, "gradient of x");
  if (affine) {
    expect_close(ours.gamma, exact_gamma.grad(), 1e-4, 1e-3, "gradient of gamma");
    expect_close(ours.beta, exact_beta.grad(), 1e-4, 1e-3, "gradient of beta");
  }
}

TEST(BatchNormActivation, GradientsAreThoseOfTheDefinition) {
  for (const Case& item : kCases)
    for (const Epilogue& range : kEpilogues)
      for (const bool affine : {true, false}) expect_gradients(item, affine, range);
}

/// first, second  what part of the gradient comes by each of the two results
void expect_sum(const Case& item, float first, float second) {
  for (const Epilogue& range : {Epilogue{0, 6}, Epilogue{.low = 0}, Epilogue{}}) {
    const at::Tensor x = map_of(item, 3, at::kFloat), addend = at::randn_like(x), wanted = at::randn_like(x);
    const at::Tensor gamma = at::linspace(0.5, 2, item.depth);
    // By autograd through the operator, and by the definition.
    const at::Tensor own[] = {x.clone().requires_grad_(), gamma.clone().requires_grad_(),
                              addend.clone().requires_grad_()};
    const BatchNormed made = batch_norm_activation(own[0], own[1], {}, 1e-3, range, nullptr, own[2]);
    EXPECT_EQ(made.y.data_ptr(), made.again.data_ptr());
    std::vector<at::Tensor> results, gradients;
    if (first != 0) results.push_back(made.y), gradients.push_back(wanted * first);
    if (second != 0) results.push_back(made.again), gradients.push_back(wanted * second);
    torch::autograd::backward(results, gradients);
    const at::Tensor exact[] = {x.to(at::kDouble).requires_grad_(), gamma.to(at::kDouble).requires_grad_(),
                                addend.to(at::kDouble).requires_grad_()};
    const at::Tensor sum = (reference(exact[0], exact[1], {}, 1e-3, {}).y + exact[2]).clamp(range.low, range.high);
    sum.backward(wanted.to(at::kDouble));
    expect_close(made.y, sum, 1e-5, 1e-4, "y");
    expect_close(own[0].grad(), exact[0].grad(), 1e-3, 2e-4, "gradient of x");
    expect_close(own[1].grad(), exact[1].grad(), 1e-4, 2e-3, "gradient of gamma");
    expect_close(own[2].grad(), exact[2].grad(), 0, 0, "gradient of the addend");
  }
}

TEST(BatchNormActivation, AnAddendComesInBeforeTheActivation) {
  for (const Case& item : kCases) expect_sum(item, 1, 0);
}

TEST(BatchNormActivation, GradientsOfBothWaysOfASumAreAddedUp) {
  for (const Case& item : kCases) {
    expect_sum(item, 0, 1);
    expect_sum(item, 0.5f, 0.5f);
  }
}

TEST(BatchNormActivation, NoticesThatEitherOfItsResultsHasBeenWritten) {
  const at::Tensor x = map_of(kCases[0], 3, at::kFloat).requires_grad_(), addend = at::randn_like(x);
  for (const bool second : {false, true}) {
    const BatchNormed made = batch_norm_activation(x, {}, {}, 1e-3, {.low = 0}, nullptr, addend);
    {
      const at::NoGradGuard no_gradients;
      (second ? made.again : made.y).add_(1);
    }
    EXPECT_THROW(made.y.sum().backward(), c10::Error);
  }
}

TEST(BatchNormActivation, RefusesOtherAddends) {
  const at::Tensor x = map_of({2, 3, 4, 4}, 0, at::kFloat);
  EXPECT_THROW(batch_norm_activation(x, {}, {}, 1e-3, {}, nullptr, x.narrow(0, 0, 1)), c10::Error);
  EXPECT_THROW(batch_norm_activation(x, {}, {}, 1e-3, {}, nullptr, x.to(at::kHalf)), c10::Error);
  EXPECT_THROW(batch_norm_activation(x, {}, {}, 1e-3, {.curve = Epilogue::Curve::kSwish}, nullptr, x), c10::Error);
}

TEST(BatchNormActivation, SwishIsExactOverTheWholeRange) {
  // Beta moves the normalised values to where the exponential is huge, and to where it vanishes.
  const at::Tensor x = map_of({2, 64, 16, 16}, 0, at::kFloat), beta = at::linspace(-120, 120, 64);
  for (const Epilogue& range : kEpilogues) {
    const at::Tensor ours = batch_norm_activation(x, {}, beta, 1e-3, range).y;
    EXPECT_TRUE(ours.isfinite().all().item<bool>());
    expect_close(ours, reference(x, {}, beta, 1e-3, range).y, 2e-6, 1e-5, "y");
  }
}

TEST(BatchNormActivation, StaysExactFarFromZero) {
  // A mean of 1000 and a deviation of 1: a sum of squares in float32 would lose the variance.
  const at::Tensor x = map_of({4, 8, 32, 32}, 1000, at::kFloat);
  const BatchNormed ours = batch_norm_activation(x, {}, {}, 1e-3, {}), exact = reference(x, {}, {}, 1e-3, {});
  expect_close(ours.inverse_deviation, exact.inverse_deviation, 1e-4, 0, "inverse deviation");
  expect_close(ours.y, exact.y, 0, 1e-3, "y");
}

TEST(BatchNormActivation, ThreadsDoNotChangeABit) {
  const at::Tensor x = map_of({4, 33, 37, 29}, 1, at::kFloat);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const BatchNormed one = batch_norm_activation(x, {}, {}, 1e-3, {});
  at::set_num_threads(3);
  const BatchNormed three = batch_norm_activation(x, {}, {}, 1e-3, {});
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one.y, three.y));
  EXPECT_TRUE(at::equal(one.inverse_deviation, three.inverse_deviation));
}

TEST(BatchNormActivation, NanStaysNan) {
  at::Tensor x = map_of({1, 2, 3, 3}, 0, at::kFloat);
  x.select(1, 1).fill_(NAN);
  const BatchNormed result = batch_norm_activation(x, {}, {}, 1e-3, {0, 6});
  EXPECT_TRUE(result.y.select(1, 1).isnan().all().item<bool>());
  EXPECT_FALSE(result.y.select(1, 0).isnan().any().item<bool>());
}

TEST(BatchNormActivation, TakesStatisticsThatLieApart) {
  at::manual_seed(9);
  const auto apart = [](const at::Tensor& numbers) {
    return at::stack({numbers, at::full_like(numbers, 7)}, 1).select(1, 0);
  };
  const at::Tensor x = at::randn({2, 5, 4, 3}).contiguous(at::MemoryFormat::ChannelsLast), gradient = at::randn_like(x);
  const BatchNormed made = batch_norm_activation(x, {}, {}, 1e-3, {});
  const auto back = [&](const BatchNormed& statistics) {
    return batch_norm_activation_backward(gradient, x, {}, {}, statistics, {});
  };
  const BatchNormGradients ours = back({made.y, apart(made.mean), apart(made.inverse_deviation)}),
                           expected = back(made);
  EXPECT_TRUE(at::equal(ours.x, expected.x));
  EXPECT_TRUE(at::equal(ours.gamma, expected.gamma));
}

TEST(BatchNormActivation, RefusesOtherLayouts) {
  EXPECT_FALSE(fuses_batch_norm(at::zeros({2, 3, 4, 4})));
  EXPECT_FALSE(fuses_batch_norm(at::zeros({2, 3})));
  EXPECT_THROW(batch_norm_activation(at::zeros({2, 3, 4, 4}), {}, {}, 1e-3, {}), c10::Error);
}

}  // namespace
}  // namespace osprey::kernels
