#include "osprey/kernels/squeeze_excite.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "osprey/kernels/device.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kPictures = 3, kChannels = 19, kHeight = 37, kWidth = 5;  // more lines than a task of a CPU has

at::Tensor map_of_type(at::ScalarType type, int64_t channels = kChannels) {
  return at::randn({kPictures, channels, kHeight, kWidth}).contiguous(at::MemoryFormat::ChannelsLast).to(type);
}

struct Arguments {
  PendingMap map;
  at::Tensor factors, shifts;  ///< of the means, which make the gates

  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> result;
    for (const at::Tensor& leaf : {map.x, map.mean, map.inverse_deviation, map.gamma, map.beta, factors, shifts})
      if (leaf.defined()) result.push_back(leaf);
    return result;
  }
};

Arguments arguments(at::ScalarType type, bool pending, const Epilogue& epilogue) {
  Arguments result{
      .map = {.x = map_of_type(type)}, .factors = at::randn({kChannels, kChannels}), .shifts = at::randn({kChannels})};
  if (pending)
    result.map = {.x = result.map.x,
                  .mean = at::randn({kChannels}),
                  .inverse_deviation = at::rand({kChannels}) + 0.5,
                  .gamma = at::rand({kChannels}) + 0.5,
                  .beta = at::randn({kChannels}),
                  .epilogue = epilogue};
  for (const at::Tensor& leaf : result.leaves()) leaf.requires_grad_();
  return result;
}

at::Tensor gates_of(const at::Tensor& means, const Arguments& of) {
  return at::sigmoid(means.mm(of.factors.to(means.scalar_type())) + of.shifts);
}

at::Tensor squeezed_and_excited(const Arguments& of) {
  const Squeezed squeezed = squeeze(of.map);
  return excite(squeezed.map, gates_of(squeezed.means, of));
}

/// By operations of libtorch, in float64.
at::Tensor by_libtorch(const Arguments& of) {
  at::Tensor values = of.map.x.to(at::kDouble);
  if (of.map.mean.defined()) {
    const auto wide = [](const at::Tensor& channel) { return channel.to(at::kDouble).view({1, -1, 1, 1}); };
    values = (values - wide(of.map.mean)) * wide(of.map.inverse_deviation) * wide(of.map.gamma) + wide(of.map.beta);
    const Epilogue& epilogue = of.map.epilogue;
    values = epilogue.curve == Epilogue::Curve::kSwish       ? at::silu(values)
             : epilogue.curve == Epilogue::Curve::kHardSwish ? at::hardswish(values)
                                                             : at::clamp(values, epilogue.low, epilogue.high);
  }
  return values * gates_of(values.mean({2, 3}), of).view({kPictures, kChannels, 1, 1});
}

TEST(SqueezeExciteOperators, AreMeansGatesAndTheirGradients) {
  at::manual_seed(12);
  struct Kind {
    at::ScalarType type;
    double relative;  // of results, which are maps; those of pictures and channels are rounded by them only
  };
  for (const Kind& kind : {Kind{at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}, {at::kHalf, 1e-3}})
    for (const auto& [pending, epilogue] : {std::pair{false, Epilogue{}},
                                            {true, Epilogue{.low = 0, .high = 6}},
                                            {true, Epilogue{.curve = Epilogue::Curve::kSwish}},
                                            {true, Epilogue{.curve = Epilogue::Curve::kHardSwish}}}) {
      const Arguments of = arguments(kind.type, pending, epilogue);
      const std::string what = std::string(c10::toString(kind.type)) + ", curve " +
                               std::to_string(static_cast<int>(epilogue.curve)) + (pending ? "" : ", not pending");
      const at::Tensor y = squeezed_and_excited(of), expected = by_libtorch(of);
      EXPECT_EQ(y.scalar_type(), kind.type) << what;
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast)) << what;
      expect_close(y.to(at::kDouble), expected, kind.relative, kind.relative, what);

      const at::Tensor gradient = map_of_type(kind.type);
      const auto ours = torch::autograd::grad({y}, of.leaves(), {gradient}),
                 theirs = torch::autograd::grad({expected}, of.leaves(), {gradient.to(at::kDouble)});
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].scalar_type(), of.leaves()[i].scalar_type()) << what;
        const at::Tensor own = ours[i].to(at::kDouble), other = theirs[i].to(at::kDouble);
        EXPECT_LE((own - other).norm().item<double>(), kind.relative * other.norm().item<double>())
            << what << ", gradient " << i;
      }
    }
}

TEST(SqueezeExciteOperators, EitherHalfMayBeUsedAlone) {
  at::manual_seed(13);
  const Arguments of = arguments(at::kFloat, true, {.curve = Epilogue::Curve::kSwish});
  const at::Tensor values = pending_values(of.map), gates = at::rand({kPictures, kChannels});
  const auto gradient = [&](const at::Tensor& result) {
    return torch::autograd::grad({result.square().sum()}, {of.map.x}).front();
  };
  expect_close(gradient(squeeze(of.map).means), gradient(values.mean({2, 3})), 1e-4, 1e-7, "of the means");
  expect_close(gradient(excite(squeeze(of.map).map, gates)),
               gradient(pending_values(of.map) * gates.view({kPictures, kChannels, 1, 1})), 1e-4, 1e-5,
               "of what is excited");
}

TEST(SqueezeExciteOperators, HaveTheBitsOfFloatsWhereMapsAreHalf) {
  at::manual_seed(14);
  const at::NoGradGuard no_gradients;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Arguments half = arguments(type, true, {.curve = Epilogue::Curve::kSwish});
    Arguments floats = half;
    floats.map.x = half.map.x.to(at::kFloat);
    EXPECT_TRUE(at::equal(squeeze(half.map).means, squeeze(floats.map).means)) << c10::toString(type);
    EXPECT_TRUE(at::equal(squeezed_and_excited(half), squeezed_and_excited(floats).to(type))) << c10::toString(type);
  }
}

TEST(SqueezeExciteOperators, KeepToThePictureWhoseMeansTheyAre) {
  at::manual_seed(15);
  const at::NoGradGuard no_gradients;
  PendingMap map{.x = map_of_type(at::kFloat)};
  const at::Tensor means = squeeze(map).means;
  map.x[1].fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor again = squeeze(map).means;
  EXPECT_TRUE(at::equal(again[0], means[0]) && at::equal(again[2], means[2]));
  EXPECT_TRUE(again[1].isnan().all().item<bool>());
}

TEST(SqueezeExciteOperators, TakeOnePictureOfOnePlace) {
  at::manual_seed(16);
  const at::Tensor x = at::randn({1, 5, 1, 1}), gates = at::rand({1, 5});
  const Squeezed squeezed = squeeze({.x = x});
  EXPECT_TRUE(at::equal(squeezed.means, x.view({1, 5})));
  EXPECT_TRUE(at::equal(excite(squeezed.map, gates), x * gates.view({1, 5, 1, 1})));
}

TEST(SqueezeExciteOperators, GiveGradientsToThoseWhoWantThem) {
  at::manual_seed(17);
  Arguments of = arguments(at::kFloat, true, {.curve = Epilogue::Curve::kSwish});
  of.map.x = of.map.x.detach();
  const auto ours = torch::autograd::grad({squeezed_and_excited(of).sum()}, {of.map.gamma, of.shifts}),
             theirs = torch::autograd::grad({by_libtorch(of).sum()}, {of.map.gamma, of.shifts});
  for (size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], theirs[i], 1e-4, 1e-3, "gradient");
}

TEST(SqueezeExciteOperators, AMapThatIsWrittenBeforeTheWayBackIsFoundOut) {
  const at::Tensor x = map_of_type(at::kFloat), gates = at::rand({kPictures, kChannels}).requires_grad_();
  const Squeezed squeezed = squeeze({.x = x});
  const at::Tensor y = excite(squeezed.map, gates);
  x.add_(1);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {gates}); },
              ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
}

TEST(SqueezeExciteOperators, RefuseWhatIsNotOfTheMap) {
  const PendingMap map{.x = map_of_type(at::kFloat)};
  EXPECT_THAT(
      [&] {
        excite(map, at::ones({kPictures, kChannels + 1}));
      },
      ThrowsMessage<c10::Error>(HasSubstr("expected gates, a float for each channel of each picture")));
  EXPECT_THAT(
      [&] {
        excite(map, at::ones({kPictures, kChannels}, at::kDouble));
      },
      ThrowsMessage<c10::Error>(HasSubstr("expected gates")));
  EXPECT_THAT([&] { squeeze({.x = map.x, .mean = at::ones({2}), .inverse_deviation = at::ones({2})}); },
              ThrowsMessage<c10::Error>(HasSubstr("expected 19 means")));
  EXPECT_THAT(
      [&] {
        squeeze({.x = at::ones({0, 4, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast)});
      },
      ThrowsMessage<c10::Error>(HasSubstr("empty map")));
}

}  // namespace
}  // namespace osprey::kernels
