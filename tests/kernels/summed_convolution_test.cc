#include "osprey/kernels/summed_convolution.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct SummedKind {
  std::vector<int64_t> x;
  int64_t columns;
};
/// Channels that fill no register, few places, more weights than groups of places have room for, and one of each.
const SummedKind kSummedKinds[] = {
    {{2, 19, 13, 11}, 47}, {{2, 64, 20, 21}, 32}, {{1, 19, 2, 2}, 20}, {{1, 560, 9, 20}, 500}, {{2, 1, 5, 7}, 1}};
const Epilogue kClampsOfSums[] = {{}, {.low = 0}, {.low = 0, .high = 6}};

/// All that goes into one.
struct SummedArguments {
  SummedArguments(const SummedKind& kind, const Epilogue& clamp, bool with_parameters, at::ScalarType type)
      : addend(map(kind.x, type)),
        weights(at::randn({kind.columns, kind.x[1], 1, 1}) / std::sqrt(static_cast<double>(kind.x[1]))) {
    const int64_t depth = kind.x[1];
    input = {map(kind.x, type), at::randn({depth}) * 0.2, at::rand({depth}) + 0.5, {}, {}, clamp};
    if (with_parameters) input.gamma = at::rand({depth}) + 0.5, input.beta = at::randn({depth});
  }

  static at::Tensor map(at::IntArrayRef sizes, at::ScalarType type) {
    return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast).to(type);
  }

  /// The same tensors in another precision, as leaves of a graph of gradients.
  SummedArguments leaves(at::ScalarType of_maps, at::ScalarType of_channels) const {
    SummedArguments result = *this;
    for (at::Tensor* own : {&result.input.x, &result.addend}) *own = own->to(of_maps).detach().clone();
    for (at::Tensor* own : {&result.input.mean, &result.input.inverse_deviation, &result.input.gamma,
                            &result.input.beta, &result.weights})
      if (own->defined()) *own = own->to(of_channels).detach().clone();
    for (at::Tensor* own : result.all()) own->requires_grad_();
    return result;
  }
  std::vector<at::Tensor*> all() {
    std::vector<at::Tensor*> result;
    for (at::Tensor* own :
         {&input.x, &addend, &input.mean, &input.inverse_deviation, &input.gamma, &input.beta, &weights})
      if (own->defined()) result.push_back(own);
    return result;
  }

  PendingMap input;
  at::Tensor addend, weights;
};

constexpr double kEpsilonOfSums = 1e-3;

SummedConvolution in_one(const SummedArguments& of) {
  return summed_convolution(of.input, of.addend, of.weights, kEpsilonOfSums);
}

SummedConvolution in_steps(const SummedArguments& of) {
  const at::Tensor sum = pending_sum(of.input, of.addend);
  return {sum, normalized_convolution(PendingMap{.x = sum}, of.weights, {}, kEpsilonOfSums)};
}

SummedConvolution by_libtorch(const SummedArguments& of) {
  const auto wide = [](const at::Tensor& channel) { return channel.view({1, -1, 1, 1}); };
  at::Tensor sum = (of.input.x - wide(of.input.mean)) * wide(of.input.inverse_deviation);
  if (of.input.gamma.defined()) sum = sum * wide(of.input.gamma) + wide(of.input.beta);
  sum = (sum + of.addend).clamp(of.input.epilogue.low, of.input.epilogue.high);
  const at::Tensor y = at::conv2d(sum, of.weights);
  return {sum, {y, y.mean({0, 2, 3}), (y.var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/false) + kEpsilonOfSums).rsqrt()}};
}

/// Gradients of all arguments.
/// gradient  of each part of the result; undefined: nothing flows to that
std::vector<at::Tensor> gradients_of(SummedArguments& of, const SummedConvolution& result,
                                     const SummedConvolution& gradient) {
  at::Tensor loss = at::zeros({}, of.weights.options());
  const auto add = [&](const at::Tensor& part, const at::Tensor& own) {
    if (own.defined()) loss = loss + (part * own).sum();
  };
  add(result.sum, gradient.sum);
  add(result.made.y, gradient.made.y);
  add(result.made.mean, gradient.made.mean);
  add(result.made.inverse_deviation, gradient.made.inverse_deviation);
  loss.backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor* leaf : of.all()) all.push_back(leaf->grad());
  return all;
}

SummedConvolution random_gradient(const SummedConvolution& like) {
  return {at::randn_like(like.sum),
          {at::randn_like(like.made.y), at::randn_like(like.made.mean), at::randn_like(like.made.mean)}};
}

SummedConvolution to(const SummedConvolution& from, at::ScalarType type) {
  return {from.sum.to(type), {from.made.y.to(type), from.made.mean.to(type), from.made.inverse_deviation.to(type)}};
}

TEST(SummedConvolution, IsTheConvolutionOfTheSum) {
  at::manual_seed(41);
  for (const SummedKind& kind : kSummedKinds)
    for (const Epilogue& clamp : kClampsOfSums)
      for (const bool with_parameters : {true, false}) {
        const std::string what = fmt::format("{} to {}, {} .. {}, parameters: {}", fmt::join(kind.x, " x "),
                                             kind.columns, clamp.low, clamp.high, with_parameters);
        const SummedArguments given(kind, clamp, with_parameters, at::kFloat);
        SummedArguments own = given.leaves(at::kFloat, at::kFloat), exact = given.leaves(at::kDouble, at::kDouble);
        const SummedConvolution ours = in_one(own), wanted = by_libtorch(exact),
                                expected = to({wanted.sum.detach(),
                                               {wanted.made.y.detach(), wanted.made.mean.detach(),
                                                wanted.made.inverse_deviation.detach()}},
                                              at::kFloat);
        EXPECT_TRUE(ours.sum.is_contiguous(at::MemoryFormat::ChannelsLast)) << what;
        expect_close(ours.sum, expected.sum, 1e-5, 1e-5, what + ", sum");
        expect_close(ours.made.y, expected.made.y, 2e-5, 2e-5, what);
        expect_close(ours.made.mean, expected.made.mean, 1e-5, 1e-5, what + ", mean");
        expect_close(ours.made.inverse_deviation, expected.made.inverse_deviation, 2e-5, 2e-5,
                     what + ", inverse deviation");
        const SummedConvolution gradient = random_gradient(ours);
        const auto found = gradients_of(own, ours, gradient),
                   right = gradients_of(exact, wanted, to(gradient, at::kDouble));
        for (size_t i = 0; i < found.size(); ++i)  // sums over up to 840 places, or of 500 products, of a few units
          expect_close(found[i], right[i].to(at::kFloat), 5e-4, 5e-5, fmt::format("{}, gradient {}", what, i));
      }
}

TEST(SummedConvolution, MakesTheBitsOfItsSteps) {
  at::manual_seed(42);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const SummedKind& kind : kSummedKinds)
      for (const Epilogue& clamp : kClampsOfSums) {
        const std::string what =
            fmt::format("{}, {} to {}, to {}", c10::toString(type), fmt::join(kind.x, " x "), kind.columns, clamp.high);
        const SummedArguments given(kind, clamp, /*with_parameters=*/true, type);
        SummedArguments own = given.leaves(type, at::kFloat), other = given.leaves(type, at::kFloat);
        const SummedConvolution ours = in_one(own), steps = in_steps(other);
        EXPECT_TRUE(at::equal(ours.sum, steps.sum)) << what;
        EXPECT_TRUE(at::equal(ours.made.y, steps.made.y)) << what;
        EXPECT_TRUE(at::equal(ours.made.mean, steps.made.mean)) << what;
        EXPECT_TRUE(at::equal(ours.made.inverse_deviation, steps.made.inverse_deviation)) << what;
        const SummedConvolution gradient = random_gradient(ours);
        const auto found = gradients_of(own, ours, gradient), expected = gradients_of(other, steps, gradient);
        for (size_t i = 0; i < found.size(); ++i) {  // steps round the gradient of the sum before its parts are added
          const at::Tensor exact = expected[i].to(at::kDouble);
          EXPECT_EQ(found[i].scalar_type(), own.all()[i]->scalar_type()) << what;
          EXPECT_LE((found[i].to(at::kDouble) - exact).norm().item<double>(),
                    (type == at::kFloat ? 1e-5 : 1e-2) * exact.norm().item<double>())
              << what << ", gradient " << i;
        }
      }
}

TEST(SummedConvolution, TakesGradientsOfSomeOfItsResults) {
  at::manual_seed(43);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const SummedArguments given(kSummedKinds[0], {.low = 0}, /*with_parameters=*/true, type);
    const SummedConvolution all = random_gradient(in_one(given));
    const SummedConvolution some[] = {{all.sum, {}},
                                      {{}, {all.made.y, {}, {}}},
                                      {{}, {{}, all.made.mean, {}}},
                                      {{}, {{}, {}, all.made.inverse_deviation}},
                                      {all.sum, {all.made.y, {}, {}}}};
    for (size_t i = 0; i < std::size(some); ++i) {
      SummedArguments own = given.leaves(type, at::kFloat), exact = given.leaves(at::kDouble, at::kDouble);
      const auto found = gradients_of(own, in_one(own), some[i]);
      const auto wanted = gradients_of(exact, by_libtorch(exact), some[i]);
      // Of bfloat16, weights, the sum and its gradient are rounded, which makes up to 0.8 % each as in other
      // convolutions.
      for (size_t k = 0; k < found.size(); ++k) {
        const at::Tensor right = wanted[k].defined() ? wanted[k] : at::zeros_like(*exact.all()[k]);
        EXPECT_LE((found[k].to(at::kDouble) - right).norm().item<double>(),
                  (type == at::kFloat ? 1e-4 : 2e-2) * right.norm().item<double>() + 1e-4)
            << c10::toString(type) << ", of " << i << ", gradient " << k;
      }
    }
  }
}

TEST(SummedConvolution, NamesWhatItDoesNotTake) {
  at::manual_seed(44);
  const SummedArguments given(kSummedKinds[0], {}, /*with_parameters=*/true, at::kFloat);
  const auto expect_error = [](SummedArguments of, const char* text) {
    EXPECT_THAT([&] { in_one(of); }, ThrowsMessage<c10::Error>(HasSubstr(text)));
  };
  SummedArguments other = given;
  other.addend = at::zeros({2, 19, 13, 12});
  expect_error(other, "expected an addend of CPUFloatType [2, 19, 13, 11]");
  other = given, other.weights = at::zeros({5, 19, 3, 3});
  expect_error(other, "expected maps [B, C, H, W] and weights [O, C, 1, 1]");
  other = given, other.weights = at::zeros({5, 18, 1, 1});
  expect_error(other, "[5, 18, 1, 1]");
  other = given, other.weights = at::zeros({0, 19, 1, 1});
  expect_error(other, "at least one channel");
  other = given, other.input.epilogue.curve = Epilogue::Curve::kSwish;
  expect_error(other, "clamped or nothing");
  const SummedConvolution made = in_one(given);
  const auto expect_refused = [&](const SummedConvolution& gradient, const char* text) {
    EXPECT_THAT([&] { summed_convolution_backward(gradient, made, given.input, given.weights); },
                ThrowsMessage<c10::Error>(HasSubstr(text)));
  };
  expect_refused({at::zeros({2, 19, 13, 12}), {}}, "expected a gradient of size [2, 19, 13, 11]");
  expect_refused({{}, {at::zeros({2, 47, 13, 12}), {}, {}}}, "expected a gradient of size [2, 47, 13, 11]");
  expect_refused({{}, {{}, at::zeros({46}), {}}}, "statistics of the result and their gradients");
}

}  // namespace
}  // namespace osprey::kernels
