#include "osprey/kernels/activated_convolution.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/kernels/device.h"
#include "osprey/kernels/normalized_convolution.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor map_of_type(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast).to(type);
}

/// All that goes into one; leaves of the graph of gradients.
struct ActivatedArguments {
  PendingMap input;
  at::Tensor weights, addend;
  OwnBatchNorm own;
  SlidingWindow window;

  /// In another precision.
  ActivatedArguments to(at::ScalarType type) const {
    ActivatedArguments result = *this;
    const auto leaves = result.leaves();
    for (at::Tensor* leaf : leaves) *leaf = leaf->detach().to(type).requires_grad_();
    return result;
  }
  std::vector<at::Tensor*> leaves() {
    std::vector<at::Tensor*> result;
    for (at::Tensor* leaf : {&input.x, &input.mean, &input.inverse_deviation, &input.gamma, &input.beta, &weights,
                             &addend, &own.gamma, &own.beta})
      if (leaf->defined()) result.push_back(leaf);
    return result;
  }
};

struct ActivatedKind {
  std::vector<int64_t> weights, x;
  SlidingWindow window;
};

/// pending  of the input, and whether batch norms have parameters
ActivatedArguments activated_arguments(const ActivatedKind& kind, bool pending, const Epilogue& clamp,
                                       at::ScalarType type = at::kFloat) {
  const int64_t C = kind.x[1], O = kind.weights[0];
  ActivatedArguments result{
      .input = {.x = map_of_type(kind.x, type)}, .weights = at::randn(kind.weights) * 0.2, .window = kind.window};
  result.own = {.epsilon = 1e-3, .clamp = clamp};
  if (pending) {
    result.input.mean = at::randn({C}) * 0.2, result.input.inverse_deviation = at::rand({C}) + 0.5;
    result.input.gamma = at::rand({C}) + 0.5, result.input.beta = at::randn({C});
    result.input.epilogue = {.low = 0, .high = 6};
    result.own.gamma = at::rand({O}) + 0.5, result.own.beta = at::randn({O});
  }
  const at::Tensor y = normalized_convolution(result.input, result.weights, result.window, result.own.epsilon).y;
  result.addend = map_of_type(y.sizes(), type);
  for (at::Tensor* leaf : result.leaves()) leaf->requires_grad_();
  return result;
}

at::Tensor normalized(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                      const at::Tensor& gamma, const at::Tensor& beta) {
  const auto wide = [](const at::Tensor& channel) { return channel.view({1, -1, 1, 1}); };
  at::Tensor result = (x - wide(mean)) * wide(inverse_deviation);
  if (gamma.defined()) result = result * wide(gamma) + wide(beta);
  return result;
}

/// The same by operations of libtorch.
BatchNormed activated_by_libtorch(const ActivatedArguments& of) {
  at::Tensor values = of.input.x;
  if (of.input.mean.defined())
    values = normalized(values, of.input.mean, of.input.inverse_deviation, of.input.gamma, of.input.beta)
                 .clamp(of.input.epilogue.low, of.input.epilogue.high);
  const auto& [top, bottom, left, right] = of.window.padding;
  const at::Tensor y = at::conv2d(at::constant_pad_nd(values, {left, right, top, bottom}), of.weights, {},
                                  {of.window.stride, of.window.stride}, at::IntArrayRef{0, 0}, {1, 1},
                                  values.size(1) / of.weights.size(1));
  const at::Tensor mean = y.mean({0, 2, 3}),
                   inverse_deviation = (y.var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/false) + of.own.epsilon).rsqrt();
  const at::Tensor result = normalized(y, mean, inverse_deviation, of.own.gamma, of.own.beta);
  return {(result + of.addend).clamp(of.own.clamp.low, of.own.clamp.high), mean, inverse_deviation};
}

BatchNormed result_of(const ActivatedArguments& of) {
  return activated_convolution(of.input, of.weights, of.window, of.own, of.addend);
}

/// One after the other, each an operator with gradients of its own.
at::Tensor activated_by_steps(const ActivatedArguments& of) {
  const MapWithStatistics made = normalized_convolution(of.input, of.weights, of.window, of.own.epsilon);
  const PendingMap own{made.y, made.mean, made.inverse_deviation, of.own.gamma, of.own.beta, of.own.clamp};
  return pending_sum(own, of.addend);
}

const ActivatedKind kActivatedKinds[] = {{{47, 19, 1, 1}, {1, 19, 13, 11}, {}},
                                         {{20, 19, 1, 1}, {2, 19, 2, 3}, {}},
                                         {{33, 19, 3, 3}, {2, 19, 9, 14}, {2, {0, 1, 0, 1}}},
                                         {{19, 1, 3, 3}, {1, 19, 9, 14}, {1, {1, 1, 1, 1}}}};
/// By Winograd's tiles.
const ActivatedKind kActivatedInTiles{{32, 16, 3, 3}, {1, 16, 17, 20}, {1, {1, 1, 1, 1}}};
const Epilogue kOwnClamps[] = {{}, {.low = 0}, {.low = 0, .high = 6}};

TEST(ActivatedConvolution, IsWhatItIsMadeOf) {
  at::manual_seed(31);
  std::vector<ActivatedKind> kinds(std::begin(kActivatedKinds), std::end(kActivatedKinds));
  kinds.push_back(kActivatedInTiles);
  for (const ActivatedKind& kind : kinds)
    for (const Epilogue& clamp : kOwnClamps)
      for (const bool pending : {true, false}) {
        const std::string what = fmt::format("weights {}, to {} .. {}, pending: {}", fmt::join(kind.weights, " x "),
                                             clamp.low, clamp.high, pending);
        ActivatedArguments own = activated_arguments(kind, pending, clamp), exact = own.to(at::kDouble);
        const BatchNormed ours = result_of(own), wanted = activated_by_libtorch(exact);
        EXPECT_FALSE(ours.mean.requires_grad() || ours.inverse_deviation.requires_grad()) << what;
        expect_close(ours.y, wanted.y.detach().to(at::kFloat), 5e-5, 2e-5, what);
        expect_close(ours.mean, wanted.mean.detach().to(at::kFloat), 1e-5, 1e-5, what + ", mean");
        expect_close(ours.inverse_deviation, wanted.inverse_deviation.detach().to(at::kFloat), 1e-5, 2e-5,
                     what + ", inverse deviation");
        const at::Tensor gradient = at::randn_like(ours.y);
        ours.y.backward(gradient);
        wanted.y.backward(gradient.to(at::kDouble));
        const auto found = own.leaves(), expected = exact.leaves();
        for (size_t i = 0; i < found.size(); ++i)  // sums over up to 286 places of what are a few units
          expect_close(found[i]->grad(), expected[i]->grad().to(at::kFloat), 5e-4, 5e-5,
                       fmt::format("{}, gradient {}", what, i));
      }
}

TEST(ActivatedConvolution, AddsTheGradientsOfBothOfItsResults) {
  at::manual_seed(34);
  for (const Epilogue& clamp : kOwnClamps) {
    const auto gradients = [&](const ActivatedArguments& given, const at::Tensor& first, const at::Tensor& second) {
      ActivatedArguments own = given.to(at::kFloat);
      for (at::Tensor* leaf : own.leaves()) *leaf = leaf->detach().clone().requires_grad_();
      const BatchNormed result = result_of(own);
      EXPECT_TRUE(at::equal(result.y, result.again));
      EXPECT_EQ(result.y.data_ptr(), result.again.data_ptr());
      at::Tensor loss = at::zeros({});
      if (first.defined()) loss = loss + (result.y * first).sum();
      if (second.defined()) loss = loss + (result.again * second).sum();
      loss.backward();
      std::vector<at::Tensor> all;
      for (const at::Tensor* leaf : own.leaves()) all.push_back(leaf->grad());
      return all;
    };
    const ActivatedArguments given = activated_arguments(kActivatedKinds[0], /*pending=*/true, clamp);
    const at::Tensor first = at::randn_like(given.addend), second = at::randn_like(first);
    const auto expect_same = [&](const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
      for (size_t i = 0; i < found.size(); ++i)
        expect_close(found[i], expected[i], 1e-5, 1e-5, fmt::format("up to {}, gradient {}", clamp.high, i));
    };
    expect_same(gradients(given, first, second), gradients(given, first + second, {}));
    expect_same(gradients(given, {}, second), gradients(given, second, {}));
  }
}

TEST(ActivatedConvolution, TakesTheConvolutionThatReadsTheSum) {
  at::manual_seed(36);
  constexpr int64_t kColumns = 21;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const ActivatedKind& kind : kActivatedKinds)
      for (const Epilogue& clamp : kOwnClamps)
        for (const int forks : {0, 1, 2}) {  // how often the sum is read in other ways, too
          const std::string what = fmt::format("{}, weights {}, to {} .. {}, {} forks", c10::toString(type),
                                               fmt::join(kind.weights, " x "), clamp.low, clamp.high, forks);
          const ActivatedArguments given = activated_arguments(kind, /*pending=*/true, clamp, type);
          const at::Tensor next = at::randn({kColumns, kind.weights[0], 1, 1}) * 0.2,
                           of_sum = at::randn_like(given.addend), of_again = at::randn_like(of_sum),
                           of_mean = at::randn({kColumns}),
                           of_y = map_of_type({of_sum.size(0), kColumns, of_sum.size(2), of_sum.size(3)}, type);
          std::vector<at::Tensor> results[2], gradients[2];
          for (const bool in_one : {true, false}) {
            ActivatedArguments own = given;
            for (at::Tensor* leaf : own.leaves()) *leaf = leaf->detach().clone().requires_grad_();
            const at::Tensor weights = next.clone().requires_grad_();
            const OwnBatchNorm batch_norm = own.own;
            ActivatedConvolution made =
                in_one ? activated_convolution(own.input, own.weights, own.window, batch_norm, own.addend,
                                               {weights, batch_norm.epsilon})
                       : activated_convolution(own.input, own.weights, own.window, batch_norm, own.addend);
            EXPECT_EQ(made.next.y.defined(), in_one);
            if (!in_one) made.next = normalized_convolution(PendingMap{.x = made.y}, weights, {}, batch_norm.epsilon);
            at::Tensor loss = (made.next.y * of_y).sum() + (made.next.mean * of_mean).sum();
            if (forks > 0) loss = loss + (made.again * of_again).sum();
            if (forks > 1) loss = loss + (made.y * of_sum).sum();
            loss.backward({}, /*retain_graph=*/true);
            const at::Tensor once = weights.grad().clone();
            loss.backward();  // finds all that it needs once more
            EXPECT_TRUE(at::equal(weights.grad(), 2 * once)) << what;
            results[in_one] = {made.y,
                               made.again,
                               made.mean,
                               made.inverse_deviation,
                               made.next.y,
                               made.next.mean,
                               made.next.inverse_deviation};
            for (const at::Tensor* leaf : own.leaves()) gradients[in_one].push_back(leaf->grad());
            gradients[in_one].push_back(weights.grad());
          }
          for (size_t i = 0; i < results[0].size(); ++i)
            EXPECT_TRUE(at::equal(results[true][i], results[false][i])) << what << ", result " << i;
          // Of bfloat16, apart the gradient of the sum is rounded before its parts are added, and again as it goes on.
          for (size_t i = 0; i < gradients[0].size(); ++i) {
            const at::Tensor exact = gradients[false][i].to(at::kDouble);
            EXPECT_LE((gradients[true][i].to(at::kDouble) - exact).norm().item<double>(),
                      (type == at::kFloat ? 5e-5 : 2e-2) * exact.norm().item<double>())
                << what << ", gradient " << i;
          }
        }
}

TEST(ActivatedConvolution, NoticesThatEitherOfItsResultsHasBeenWritten) {
  at::manual_seed(35);
  const ActivatedArguments given = activated_arguments(kActivatedKinds[0], /*pending=*/true, {.low = 0});
  const NextConvolution none, next{at::randn({21, given.weights.size(0), 1, 1}), given.own.epsilon};
  for (const bool second : {false, true})
    for (const NextConvolution& reader : {none, next}) {
      const ActivatedConvolution result =
          activated_convolution(given.input, given.weights, given.window, given.own, given.addend, reader);
      {
        const at::NoGradGuard no_gradients;
        (second ? result.again : result.y).add_(1);
      }
      EXPECT_THAT([&] { (reader.weights.defined() ? result.next.y : result.y).sum().backward(); },
                  ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
    }
}

TEST(ActivatedConvolution, OfHalfTheBitsIsWhatItsStepsAre) {
  at::manual_seed(32);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const ActivatedKind& kind : kActivatedKinds)
      for (const Epilogue& clamp : kOwnClamps) {
        const std::string what = fmt::format("{}, weights {}, to {} .. {}", c10::toString(type),
                                             fmt::join(kind.weights, " x "), clamp.low, clamp.high);
        ActivatedArguments own = activated_arguments(kind, /*pending=*/true, clamp, type), other = own;
        for (at::Tensor* leaf : other.leaves()) *leaf = leaf->detach().clone().requires_grad_();
        const at::Tensor y = result_of(own).y, steps = activated_by_steps(other), gradient = at::randn_like(y);
        EXPECT_TRUE(at::equal(y, steps)) << what;
        y.backward(gradient);
        steps.backward(gradient);
        const auto found = own.leaves(), expected = other.leaves();
        for (size_t i = 0; i < found.size(); ++i) {  // steps round the gradient of what the convolution makes, too
          const at::Tensor exact = expected[i]->grad().to(at::kDouble);
          EXPECT_EQ(found[i]->grad().scalar_type(), found[i]->scalar_type()) << what;
          EXPECT_LE((found[i]->grad().to(at::kDouble) - exact).norm().item<double>(),
                    1e-2 * exact.norm().item<double>())
              << what << ", gradient " << i;
        }
      }
}

TEST(ActivatedConvolution, ThreadsDoNotChangeABit) {
  if (device::Emulation::active()) GTEST_SKIP() << "there gradients of weights are libtorch's, which promises nothing";
  at::manual_seed(33);
  const int before = at::get_num_threads();
  for (const ActivatedKind& kind : {ActivatedKind{{47, 19, 1, 1}, {3, 19, 33, 31}, {}},
                                    {{33, 19, 3, 3}, {3, 19, 33, 31}, {2, {1, 1, 1, 1}}},
                                    {{600, 512, 1, 1}, {2, 512, 15, 13}, {}},
                                    {{19, 1, 3, 3}, {3, 19, 33, 31}, {1, {1, 1, 1, 1}}}}) {
    const ActivatedArguments given = activated_arguments(kind, /*pending=*/true, {.low = 0});
    const at::Tensor gradient = at::randn_like(result_of(given).y);
    std::vector<at::Tensor> results[2];
    for (const bool many : {false, true}) {
      at::set_num_threads(many ? 3 : 1);
      ActivatedArguments own = given.to(at::kFloat);
      for (at::Tensor* leaf : own.leaves()) *leaf = leaf->detach().clone().requires_grad_();
      const at::Tensor y = result_of(own).y;
      y.backward(gradient);
      results[many].push_back(y);
      for (const at::Tensor* leaf : own.leaves()) results[many].push_back(leaf->grad());
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
  }
  at::set_num_threads(before);
}

TEST(ActivatedConvolution, NamesWhatItDoesNotTake) {
  ActivatedArguments own = activated_arguments(kActivatedKinds[0], /*pending=*/true, {});
  own.addend = map_of_type({1, 47, 13, 12});
  EXPECT_THAT([&] { result_of(own); }, ThrowsMessage<c10::Error>(HasSubstr("expected an addend of")));
  own.own.clamp.curve = Epilogue::Curve::kSwish;
  EXPECT_THAT([&] { result_of(own); }, ThrowsMessage<c10::Error>(HasSubstr("is a clamp")));
}

}  // namespace
}  // namespace osprey::kernels
