#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/random_boxes.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/parameter_update.h"
#include "osprey/kernels/sliding_convolution.h"
#include "support/golden.h"

/// What every operator promises, tried on each that is registered.
namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::osprey::testing::random_boxes;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Stack = torch::jit::Stack;
using c10::IValue;

struct Sample {
  std::string name;
  std::function<Stack()> arguments;
  double relative = 1e-5, absolute = 1e-6;  ///< of the kernels for devices to the loops for CPUs; both 0: the same bits
  double distance = 0;                      ///< > 0: of all numbers of a tensor together, instead
};

at::Tensor map(at::ScalarType type, int64_t depth = 19) {
  return at::randn({3, depth, 7, 11}).contiguous(at::MemoryFormat::ChannelsLast).to(type);
}

c10::List<at::Tensor> tensors(std::initializer_list<at::Tensor> list) { return c10::List<at::Tensor>(list); }

Stack class_loss(at::ScalarType type, std::initializer_list<IValue> rest) {
  Stack stack = {at::randn({2, 77, 13}).to(type), at::rand({2, 5, 13}), at::rand({2, 5, 1}),
                 at::randint(0, 5, {2, 77}, at::kLong)};
  stack.insert(stack.end(), rest);
  return stack;
}

Stack update(UpdateRule rule, size_t slots, std::initializer_list<float> numbers) {
  const auto list = [] { return tensors({at::rand({5000}), at::rand({3, 4}), at::rand({})}); };
  const auto none = [] { return c10::List<at::Tensor>(); };
  return {list(),
          list(),
          slots > 0 ? list() : none(),
          slots > 1 ? list() : none(),
          static_cast<int64_t>(rule),
          at::tensor(std::vector<float>(numbers)),
          at::ones({}, at::kBool)};
}

/// The distance of products of maps: where loops multiply bfloat16 numbers, weights and normalised maps are rounded, by
/// 0.17 % each, which makes up to 0.8 % of a gradient through statistics.
double of_products(at::ScalarType type) { return type == at::kBFloat16 && has_bfloat16_arithmetic() ? 1e-2 : 0; }

/// Sizes and types that kernels for devices are chosen by, as far as the samples below have none of the kind.
void add_samples_of_every_kernel(std::vector<Sample>& all) {
  const auto of_classes = [](at::ScalarType type, int64_t classes, bool weight_per_class,
                             std::initializer_list<IValue> rest) {
    Stack stack = {at::randn({2, 77, classes}).to(type), at::rand({2, 5, classes}),
                   at::rand({2, 5, weight_per_class ? classes : 1}), at::randint(0, 5, {2, 77}, at::kLong)};
    stack.insert(stack.end(), rest);
    return stack;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double relative = type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1e-2;
    for (const int64_t classes : {3, 90, 91})
      for (const bool weight_per_class : {false, true}) {
        all.push_back({"sigmoid_focal_loss",
                       [=] {
                         return of_classes(type, classes, weight_per_class, {2.0, 0.25, true});
                       },
                       relative});
        all.push_back({"softmax_cross_entropy_loss",
                       [=] {
                         return of_classes(type, classes, weight_per_class, {1.0, true});
                       },
                       relative});
      }
    for (const auto& [kernel, stride] : {std::pair{2, 2}, {3, 1}, {3, 2}}) {
      const std::vector<int64_t> padding = {0, 1, 1, 0};
      const int64_t lines = (9 + 1 - kernel) / stride + 1, pixels = (8 + 1 - kernel) / stride + 1;
      all.push_back({"max_pool",
                     [=] {
                       return Stack{at::randn({2, 16, 9, 8}).to(type).contiguous(at::MemoryFormat::ChannelsLast),
                                    int64_t{kernel}, int64_t{stride}, padding};
                     },
                     0, 0});
      all.push_back({"max_pool_backward", [=] {
                       return Stack{
                           at::randn({2, 16, lines, pixels}).to(type).contiguous(at::MemoryFormat::ChannelsLast),
                           at::randint(0, kernel * kernel, {2, 16, lines, pixels}, at::kByte),
                           std::vector<int64_t>{9, 8},
                           int64_t{kernel},
                           int64_t{stride},
                           padding};
                     }});
    }
    all.push_back({"preprocess",
                   [=] {
                     return Stack{at::randint(0, 256, {2, 3, 23, 31}, at::kByte),
                                  IValue(),
                                  at::randint(1, 24, {2, 2}, at::kLong),
                                  std::vector<int64_t>{40, 32},
                                  std::vector<double>{0.5, 2, 1},
                                  std::vector<double>{-1, 0, 3},
                                  std::vector<double>{0, 1, 2},
                                  static_cast<int64_t>(type)};
                   },
                   relative, 1e-4});  // a GPU contracts products of up to 510 with sums: some roundings of 3e-5
    all.push_back({"depthwise_convolution",
                   [=] {
                     return Stack{at::randn({2, 132, 20, 7}).contiguous(at::MemoryFormat::ChannelsLast).to(type),
                                  at::randn({132, 1, 3, 3}), int64_t{1}, std::vector<int64_t>{1, 1, 1, 1}};
                   },
                   relative, relative});
  }
  const std::vector<double> scales = {10, 10, 5, 5};
  all.push_back({"smooth_l1_loss", [] {
                   return Stack{at::randn({3, 300, 4}), at::randn({3, 300, 4}), at::rand({3, 300}), 0.7, true};
                 }});
  all.push_back({"decode_boxes", [=] { return Stack{at::randn({3, 500, 4}), random_boxes({500, 2}), scales}; }});
  all.push_back({"assign_targets", [=] {
                   return Stack{random_boxes({3, 9, 2}),
                                at::rand({3, 9, 4}),
                                at::rand({3, 9}),
                                at::randint(-2, 9, {3, 500}, at::kLong),
                                random_boxes({500, 2}),
                                scales,
                                true,
                                0.5};
                 }});
  // Windows of 3 x 3 over two maps with channels that fill panels.
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto maps = [=](int64_t depth) {
      const auto one = [=](int64_t height, int64_t width) {
        return at::randn({2, depth, height, width}).contiguous(at::MemoryFormat::ChannelsLast).to(type);
      };
      return IValue(tensors({one(9, 18), one(5, 4)}));
    };
    const auto channels = [](int64_t depth) {
      return IValue(tensors({at::rand({depth}) + 0.5, at::rand({depth}) + 0.5}));
    };
    const std::vector<int64_t> around = {1, 1, 1, 1};
    const double distance = std::max(of_products(type), 1e-5);
    all.push_back({"normalized_convolution",
                   [=] {
                     return Stack{maps(32),     channels(32), channels(32),
                                  channels(32), channels(32), 0.0,
                                  6.0,          int64_t{0},   at::randn({48, 32, 3, 3}) * 0.1,
                                  int64_t{1},   around,       1e-3};
                   },
                   1e-5, 1e-5, distance});
    all.push_back({"normalized_convolution_backward",
                   [=] {
                     return Stack{maps(48),     channels(48), channels(48), tensors({}),
                                  maps(48),     channels(48), channels(48), maps(32),
                                  channels(32), channels(32), channels(32), channels(32),
                                  0.0,          6.0,          int64_t{0},   at::randn({48, 32, 3, 3}) * 0.1,
                                  int64_t{1},   around,       true};
                   },
                   1e-5, 1e-5, 4 * distance});  // sums over places cancel
  }
}

/// Sums and the convolutions that read them, with all gradients or some.
void add_samples_of_summed_convolutions(std::vector<Sample>& all) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const bool every : {true, false}) {
      const double relative = type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1e-2;
      constexpr int64_t kColumns = 23;
      // elsewhere the gradient of the sum is rounded before its parts are added; sums over places cancel
      const double distance = std::max(of_products(type), relative);
      const auto channel = [](double from, int64_t depth = 19) { return at::rand({depth}) + from; };
      const auto optional = [=](const at::Tensor& given) { return every ? IValue(given) : IValue(); };
      const auto of_map = [=](Stack stack) {
        for (const IValue& value : Stack{map(type), channel(-0.5), channel(0.5), optional(channel(0.5)), IValue()})
          stack.push_back(value);
        return stack;
      };
      const auto weights = [] { return at::randn({kColumns, 19, 1, 1}) * 0.3; };
      all.push_back({"summed_convolution",
                     [=] {
                       Stack stack = of_map({});
                       for (const IValue& value : Stack{map(type), 0.0, 6.0, weights(), 1e-3}) stack.push_back(value);
                       return stack;
                     },
                     relative, std::max(relative, 1e-4), distance});
      all.push_back({"summed_convolution_backward",
                     [=] {
                       Stack stack =
                           of_map({optional(map(type)), map(type, kColumns), optional(channel(-0.5, kColumns)),
                                   optional(channel(-0.5, kColumns)), map(type), map(type, kColumns),
                                   channel(-0.5, kColumns), channel(0.5, kColumns)});
                       for (const IValue& value : Stack{0.0, 6.0, weights()}) stack.push_back(value);
                       return stack;
                     },
                     std::max(relative, 1e-4), std::max(relative, 1e-4), 2 * distance});
    }
}

/// Maps that are rounded, of which something is pending, or nothing.
void add_samples_of_rounding(std::vector<Sample>& all) {
  constexpr double kStep = 6.0 / 255;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const bool pending : {true, false})
      for (const int64_t depth : {19, 32}) {
        const double relative = type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1e-2;
        const auto of_map = [=](Stack stack, std::initializer_list<IValue> rest) {
          const auto channel = [=](double from) { return pending ? IValue(at::rand({depth}) + from) : IValue(); };
          stack.push_back(map(type, depth));
          for (const double from : {-0.5, 0.5, 0.5}) stack.push_back(channel(from));
          for (const IValue& value : Stack{IValue(), 0.0, 6.0, int64_t{depth == 32}}) stack.push_back(value);
          stack.insert(stack.end(), rest);
          return stack;
        };
        const auto range = [] { return at::tensor({-0.5f, 5.5f}); };
        all.push_back({"value_range", [=] { return of_map({}, {}); }, 1e-5, 1e-5});
        // A value beside the border of two numbers may fall to either side.
        all.push_back({"rounded_values",
                       [=] {
                         return of_map({}, {range(), IValue(), int64_t{pending}});
                       },
                       relative, pending ? 1.01 * kStep : 0});
        all.push_back({"rounded_values_backward",
                       [=] {
                         return of_map({map(type, depth)}, {range(), at::ones({}, at::kBool), int64_t{0}});
                       },
                       relative, std::max(relative, 1e-4)});
      }
  all.push_back(
      {"rounded_values",
       [] {
         return Stack{
             map(at::kFloat),          IValue(),  IValue(), IValue(), IValue(), 0.0, 0.0, int64_t{0}, at::zeros({2}),
             at::zeros({}, at::kBool), int64_t{0}};
       },
       0, 0});
}

/// At least one of each operator.
std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const bool force : {false, true})
    for (const bool use_thresholds : {false, true})
      for (const bool lower_is_background : {false, true})
        all.push_back({"match_anchors",
                       [=] {
                         return Stack{random_boxes({2, 9, 2}),
                                      at::rand({2, 9}) < 0.8,
                                      at::rand({2, 9}) < 0.8,
                                      random_boxes({1000, 2}),
                                      use_thresholds,
                                      0.6,
                                      0.3,
                                      lower_is_background,
                                      force};
                       },
                       0, 0});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double relative = type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1e-2;
    all.push_back({"sigmoid_focal_loss", [=] { return class_loss(type, {1.5, 0.25, true}); }, relative});
    all.push_back({"scale_slopes", [=] {
                     const at::ScalarType own = type == at::kHalf ? at::kFloat : type;
                     return Stack{at::randn({2, 77, 13}).to(own), at::rand({2, 77}), type};
                   }});
    if (type != at::kHalf)
      all.push_back({"scale_slopes_", [=] { return Stack{at::randn({2, 77, 13}).to(type), at::rand({2, 77})}; }});
    all.push_back({"softmax_cross_entropy_loss", [=] { return class_loss(type, {2.0, true}); }, relative});
    for (const int64_t depth : {19, 24})  // the latter are read many at once by kernels for devices
      for (const bool sums : {false, true}) {
        const auto own = [=] { return map(type, depth); };
        const auto other = [=] { return sums ? IValue(own()) : IValue(); };
        const auto channels = [=] { return at::rand({depth}); };
        all.push_back({"batch_norm_activation",
                       [=] { return Stack{own(), channels(), channels(), other(), 1e-3, 0.0, 6.0, int64_t{0}}; },
                       relative, relative});
        all.push_back({"batch_norm_activation_backward",
                       [=] {
                         return Stack{own(),      other(), own(), channels(),           IValue(), other(), channels(),
                                      channels(), 0.0,     6.0,   int64_t{sums ? 0 : 1}};
                       },
                       relative, 10 * relative});
      }
  }
  for (const std::vector<double>& scales : {std::vector<double>{10, 10, 5, 5}, {}})
    all.push_back({"assign_targets", [=] {
                     return Stack{random_boxes({2, 9, 2}),
                                  at::rand({2, 9, 4}),
                                  at::rand({2, 9}),
                                  at::randint(-2, 9, {2, 500}, at::kLong),
                                  random_boxes({500, 2}),
                                  scales,
                                  true,
                                  0.5};
                   }});
  const std::vector<double> scales = {10, 10, 5, 5};
  all.push_back({"decode_boxes", [=] { return Stack{at::randn({2, 500, 4}), random_boxes({500, 2}), scales}; }});
  all.push_back({"decode_boxes_backward", [=] {
                   return Stack{at::randn({2, 500, 4}), at::randn({2, 500, 4}), random_boxes({500, 2}), scales};
                 }});
  const auto box_loss = [](int64_t codes) {
    return Stack{at::randn({2, 300, codes}), at::randn({2, 300, codes}), at::rand({2, 300})};
  };
  all.push_back({"smooth_l1_loss", [=] {
                   Stack stack = box_loss(7);
                   stack.insert(stack.end(), {0.7, true});
                   return stack;
                 }});
  all.push_back({"encoded_smooth_l1_loss", [=] {
                   return Stack{at::randn({2, 300, 4}),
                                random_boxes({2, 9, 2}),
                                at::randint(-2, 9, {2, 300}, at::kLong),
                                random_boxes({300, 2}),
                                scales,
                                at::rand({2, 300}),
                                0.7,
                                true};
                 }});
  all.push_back({"giou_loss", [=] {
                   Stack stack = box_loss(4);
                   stack.emplace_back(true);
                   return stack;
                 }});
  for (const at::ScalarType pixels : {at::kByte, at::kFloat})
    for (const auto& [type, resized] :
         {std::tuple{at::kFloat, false}, {at::kBFloat16, false}, {at::kHalf, false}, {at::kFloat, true}})
      all.push_back({"preprocess", [=] {
                       return Stack{at::randint(0, 256, {2, 3, 9, 8}, pixels),
                                    at::randint(1, 9, {2, 3}, at::kLong),
                                    resized ? c10::IValue(at::randint(1, 8, {2, 2}, at::kLong)) : c10::IValue(),
                                    resized ? std::vector<int64_t>{12, 7} : std::vector<int64_t>{},
                                    std::vector<double>{0.5, 2, 1},
                                    std::vector<double>{-1, 0, 3},
                                    std::vector<double>{0, 1, 2},
                                    static_cast<int64_t>(type)};
                     }});
  enum class Boxes { kShared, kPerClass, kCodes };
  for (const auto& [sigma, agnostic, kind] : {std::tuple{0.0, false, Boxes::kShared},
                                              {0.0, true, Boxes::kPerClass},
                                              {0.5, false, Boxes::kPerClass},
                                              {0.4, true, Boxes::kShared},
                                              {0.0, false, Boxes::kCodes},
                                              {0.4, true, Boxes::kCodes}})
    all.push_back({"batch_non_max_suppression", [=] {
                     const bool codes = kind == Boxes::kCodes;
                     return Stack{codes                      ? at::randn({3, 400, 4})
                                  : kind == Boxes::kPerClass ? random_boxes({3, 400, 5, 2})
                                                             : random_boxes({3, 400, 2}),
                                  at::rand({3, 400, 5}),
                                  at::rand({3, 4}) * 0.2 + at::tensor({0., 0., .8, .8}, at::kFloat),
                                  at::tensor({400, 0, 250}, at::kLong),
                                  codes ? IValue(random_boxes({400, 2})) : IValue(),
                                  codes ? scales : std::vector<double>(),
                                  0.3,
                                  0.5,
                                  int64_t{20},
                                  int64_t{30},
                                  sigma,
                                  agnostic,
                                  true,
                                  false,
                                  0.0};
                   }});
  const auto pending = [](bool any) {
    const auto channel = [=](double from) { return any ? IValue(at::rand({19}) + from) : IValue(); };
    return std::vector<IValue>{channel(-0.5), channel(0.5), channel(0.5), IValue(), 0.0, 6.0, int64_t{0}};
  };
  const auto as_lists = [](const IValue& value) {  // of one map; an empty one where it is nothing
    if (value.isNone()) return IValue(tensors({}));
    return value.isTensor() ? IValue(tensors({value.toTensor()})) : value;
  };
  struct Convolution {
    std::vector<int64_t> weights, padding, result;
    int64_t stride = 1;
  };
  const Convolution convolutions[] = {{{5, 19, 1, 1}, {0, 0, 0, 0}, {3, 5, 7, 11}},
                                      {{19, 1, 3, 3}, {1, 1, 1, 1}, {3, 19, 7, 11}},
                                      {{5, 19, 3, 3}, {1, 0, 2, 1}, {3, 5, 6, 12}},
                                      {{5, 19, 3, 3}, {0, 1, 0, 1}, {3, 5, 3, 5}, 2},
                                      {{1600, 19, 3, 3}, {0, 1, 0, 1}, {3, 1600, 3, 5}, 2}};  // more than a MiB
  struct Kind {
    at::ScalarType type;
    double relative;  // what rounding to it may change
  };
  const Kind kinds[] = {{at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}, {at::kHalf, 2e-3}};
  for (const Kind& kind : kinds)
    for (const bool any : {true, false})
      for (const Convolution& convolution : convolutions) {
        const auto [type, relative] = kind;
        const auto [weights, padding, sizes, stride] = convolution;
        const int64_t depth = weights[0];
        const double distance = weights[1] > 1 ? of_products(type) : 0;
        all.push_back({"normalized_convolution",
                       [=] {
                         Stack stack = {tensors({map(type)})};
                         for (const IValue& value : pending(any)) stack.push_back(as_lists(value));
                         stack.insert(stack.end(), {at::randn(weights) * 0.3, stride, padding, 1e-3});
                         return stack;
                       },
                       relative, relative, distance});
        all.push_back({"normalized_convolution_backward",
                       [=] {
                         const auto of_y = [=] {
                           return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast).to(type);
                         };
                         const auto channel = [=](double from) { return at::rand({depth}) + from; };
                         const auto scale = [=] { return any ? IValue(channel(0.5)) : IValue(); };
                         Stack stack;
                         for (const IValue& value : Stack{of_y(), channel(-0.5), channel(-0.5), scale(), of_y(),
                                                          channel(-0.5), channel(0.5), map(type)})
                           stack.push_back(as_lists(value));
                         for (const IValue& value : pending(any)) stack.push_back(as_lists(value));
                         stack.insert(stack.end(), {at::randn(weights) * 0.3, stride, padding, any});
                         return stack;
                       },
                       // sums over 231 places, or of 9600 products, of numbers that are differences themselves
                       std::max(relative, 1e-4), std::max(relative, 1e-4), distance});
      }
  for (const Kind& kind : kinds) {
    const auto [type, relative] = kind;
    all.push_back({"pending_values",
                   [=] {
                     Stack stack = {map(type)};
                     for (const IValue& value : pending(true)) stack.push_back(value);
                     return stack;
                   },
                   relative, relative});
    all.push_back({"pending_values_backward",
                   [=] {
                     Stack stack = {map(type), map(type)};
                     for (const IValue& value : pending(true)) stack.push_back(value);
                     return stack;
                   },
                   relative, std::max(relative, 1e-4)});
    const auto pending_clamp = [=](Stack stack, bool with_addend) {
      std::vector<IValue> of_map = pending(true);  // mean, inverse deviation, gamma, beta, low, high, curve
      of_map.pop_back();
      if (with_addend) of_map.insert(of_map.end() - 2, map(type));
      stack.insert(stack.end(), of_map.begin(), of_map.end());
      return stack;
    };
    all.push_back({"pending_sum", [=] { return pending_clamp({map(type)}, true); }, relative, relative});
    for (const bool clamped : {true, false})
      all.push_back({"pending_sum_backward",
                     [=] {
                       const IValue sum = clamped ? IValue(map(type)) : IValue();
                       return pending_clamp({map(type), clamped ? IValue(map(type)) : IValue(), sum, map(type)}, false);
                     },
                     relative, std::max(relative, 1e-4)});
    all.push_back({"convolution_weight_gradient", [=] {
                     return Stack{tensors({at::randn({2, 8, 5, 6}).to(type)}),
                                  tensors({at::randn({2, 4, 10, 12}).to(type)}), std::vector<int64_t>{3, 3}, int64_t{2},
                                  std::vector<int64_t>{1, 1}};
                   }});
    all.push_back({"convolution_bias_gradient", [=] {
                     return Stack{tensors({at::randn({2, 8, 5, 6}).to(type), at::randn({2, 8, 2, 3}).to(type)})};
                   }});
    for (const int64_t depth : {19, 24})  // kernels for devices are for multiples of 4
      for (const int64_t side : {3, 5})
        for (const int64_t stride : {1, 2}) {
          const auto weights = [=] { return at::randn({depth, 1, side, side}); };
          const std::vector<int64_t> padding = {0, side - 1, 1, side - 2};
          all.push_back({"depthwise_convolution",
                         [=] {
                           return Stack{map(type, depth), weights(), stride, padding};
                         },
                         relative, relative});
          const auto of_y = [=] {
            return at::randn({3, depth, (7 - 1) / stride + 1, (11 - 1) / stride + 1})
                .contiguous(at::MemoryFormat::ChannelsLast)
                .to(type);
          };
          for (const bool of_x : {true, false})
            all.push_back({"depthwise_convolution_backward",
                           [=] { return Stack{of_y(), map(type, depth), weights(), stride, padding, of_x}; },
                           std::max(relative, 1e-4), std::max(relative, 1e-4)});
        }
    for (const bool transposed : {true, false})
      all.push_back({"pointwise_convolution",
                     [=] {
                       return Stack{map(type),
                                    at::randn(transposed ? std::vector<int64_t>{19, 23, 1, 1}
                                                         : std::vector<int64_t>{23, 19, 1, 1}),
                                    at::randn({23}), transposed};
                     },
                     relative, relative, of_products(type)});
    for (const bool transposed : {true, false})
      all.push_back({"sliding_convolution",
                     [=] {
                       const auto of = [&](int64_t height) {
                         return at::randn({2, transposed ? 21 : 48, height, 17})
                             .contiguous(at::MemoryFormat::ChannelsLast)
                             .to(type);
                       };
                       return Stack{tensors({of(14), of(3)}), at::randn({21, 48, 3, 3}),
                                    at::randn({transposed ? 48 : 21}), transposed};
                     },
                     relative, std::max(relative, 1e-4), of_products(type)});
    all.push_back({"packed_winograd_convolution",
                   [=] {
                     const at::Tensor x = map(type, 48);
                     return Stack{x, packed_for_winograd(x, at::randn({21, 48, 3, 3})), at::randn({21}), 0.0, 6.0};
                   },
                   0, 0});
    all.push_back({"convolution_weight_gradient",
                   [=] {
                     return Stack{tensors({at::randn({2, 85, 14, 17}).to(type), at::randn({2, 85, 2, 3}).to(type)}),
                                  tensors({at::randn({2, 48, 14, 17}).to(type), at::randn({2, 48, 2, 3}).to(type)}),
                                  std::vector<int64_t>{3, 3}, int64_t{1}, std::vector<int64_t>{1, 1}};
                   },
                   1e-5, 2e-4, of_products(type)});
  }
  all.push_back({"update_parameters", [] { return update(UpdateRule::kMomentum, 1, {0.9f, 1, -0.1f}); }});
  all.push_back({"update_parameters", [] { return update(UpdateRule::kRmsProp, 2, {0.9f, 0.9f, 0.1f, 1e-3f}); }});
  all.push_back({"update_parameters", [] {
                   return update(UpdateRule::kRmsPropEpsilonOutside, 2, {0.9f, 0.9f, 0.1f, 1e-3f});
                 }});
  all.push_back({"update_parameters", [] { return update(UpdateRule::kAdam, 2, {0.9f, 0.99f, 0.1f, 1e-3f}); }});
  all.push_back({"update_parameters", [] { return update(UpdateRule::kAverage, 0, {0.1f}); }});
  for (const bool divided : {true, false})
    all.push_back({"finish_gradients", [=] {
                     return Stack{tensors({at::randn({9000}), at::randn({2, 3}), at::randn({5})}),
                                  tensors({at::randn({9000}), at::randn({2, 3}), at::randn({5})}),
                                  at::tensor({0.0f, 0.1f, 0.2f, 0.0f, 0.0f, 0.0f}).view({3, 2}),
                                  divided ? c10::IValue(at::full({}, 3.0f)) : c10::IValue()};
                   }});
  all.push_back({"tensor_norms", [] { return Stack{tensors({at::randn({9000}), at::randn({2, 3})})}; }});
  all.push_back({"scale_tensors",
                 [] {
                   return Stack{tensors({at::randn({9000}), at::randn({2, 3})}), at::rand({2})};
                 },
                 0, 0});
  for (const at::ScalarType pixels : {at::kByte, at::kFloat})
    for (const auto& [height, width] : {std::pair{7, 5}, {8, 8}})  // the second is read by words
      all.push_back(
          {"preprocess", [=] {
             return Stack{at::randint(0, 256, {3, 3, height, width}, pixels).contiguous(at::MemoryFormat::ChannelsLast),
                          c10::IValue(),
                          c10::IValue(),
                          std::vector<int64_t>{},
                          std::vector<double>{0.5, 2, 1},
                          std::vector<double>{-1, 0, 3},
                          std::vector<double>{0, 1, 2},
                          static_cast<int64_t>(at::kBFloat16)};
           }});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t depth : {3, 16}) {
      const auto map = [=](int64_t height, int64_t width) {
        return at::randn({2, depth, height, width}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      };
      if (depth == 3)
        all.push_back({"fold_pixels",
                       [=] {
                         return Stack{map(9, 8), std::vector<int64_t>{2, -1}, std::vector<int64_t>{7, 3}};
                       },
                       0, 0});
      all.push_back({"max_pool",
                     [=] {
                       return Stack{map(9, 8), int64_t{3}, int64_t{2}, std::vector<int64_t>{1, 1, 0, 1}};
                     },
                     0, 0});
      all.push_back({"max_pool_backward", [=] {
                       return Stack{map(5, 4),
                                    at::randint(0, 9, {2, depth, 5, 4}, at::kByte),
                                    std::vector<int64_t>{9, 8},
                                    int64_t{3},
                                    int64_t{2},
                                    std::vector<int64_t>{1, 1, 0, 1}};
                     }});
    }
  for (const Kind& kind : kinds)
    for (const int64_t depth : {19, 24})           // kernels for devices read up to 8 channels at once
      for (const int64_t curve : {-1, 0, 1, 2}) {  // the first: nothing is pending
        const auto [type, relative] = kind;
        const auto of_map = [=](Stack stack, const std::vector<IValue>& more = {}) {
          const auto channel = [=](double from) { return curve < 0 ? IValue() : IValue(at::rand({depth}) + from); };
          for (const IValue& value : Stack{map(type, depth), channel(-0.5), channel(0.5), channel(0.5), IValue(), 0.0,
                                           6.0, std::max<int64_t>(curve, 0)})
            stack.push_back(value);
          stack.insert(stack.end(), more.begin(), more.end());
          return stack;
        };
        const auto of_pictures = [=] { return IValue(at::rand({3, depth})); };
        const double of_sums = std::max(relative, 1e-4);
        all.push_back({"squeeze", [=] { return of_map({}); }, 1e-5, 1e-5});
        all.push_back({"squeeze_backward",
                       [=] {
                         return of_map({map(type, depth), of_pictures()});
                       },
                       relative, of_sums});
        all.push_back({"excite", [=] { return of_map({}, {of_pictures()}); }, relative, relative});
        all.push_back(
            {"excite_backward", [=] { return of_map({map(type, depth)}, {of_pictures()}); }, relative, of_sums});
      }
  for (const int64_t depth : {35, 264}) {  // more than a block of a device has, of more lines than a task of a CPU
    const auto large = [=] {
      return at::randn({2, depth, 37, 5}).contiguous(at::MemoryFormat::ChannelsLast).to(at::kBFloat16);
    };
    const auto of_large = [=](Stack stack, const std::vector<IValue>& more = {}) {
      const auto channel = [=](double from) { return at::rand({depth}) + from; };
      for (const IValue& value :
           Stack{large(), channel(-0.5), channel(0.5), IValue(), channel(-0.5), 0.0, 0.0, int64_t{1}})
        stack.push_back(value);
      stack.insert(stack.end(), more.begin(), more.end());
      return stack;
    };
    const auto of_pictures = [=] { return IValue(at::rand({2, depth})); };
    all.push_back({"squeeze", [=] { return of_large({}); }, 1e-5, 1e-5});
    all.push_back({"squeeze_backward", [=] { return of_large({large(), of_pictures()}); }, 1e-2, 1e-2});
    all.push_back({"excite", [=] { return of_large({}, {of_pictures()}); }, 1e-2, 1e-2});
    all.push_back({"excite_backward", [=] { return of_large({large()}, {of_pictures()}); }, 1e-2, 1e-2});
  }
  all.push_back({"squeeze_backward", [=] {
                   return Stack{IValue(), at::rand({3, 19}), map(at::kFloat), IValue(),
                                IValue(), IValue(),          IValue(),        0.0,
                                0.0,      int64_t{0}};
                 }});
  add_samples_of_every_kernel(all);
  add_samples_of_rounding(all);
  add_samples_of_summed_convolutions(all);
  return all;
}

/// The same arguments again, with every tensor put through `change`.
template <class Change>
Stack changed(const Stack& stack, Change change) {
  Stack result;
  for (const IValue& value : stack) {
    if (value.isTensor()) {
      result.push_back(change(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
      result.push_back(list);
    } else {
      result.push_back(value);
    }
  }
  return result;
}

std::vector<at::Tensor> tensors_of(const Stack& stack) {
  std::vector<at::Tensor> result;
  for (const IValue& value : stack) {
    if (value.isTensor()) result.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) result.push_back(tensor);
  }
  return result;
}

at::Tensor copy(const at::Tensor& tensor) { return tensor.clone(); }

c10::OperatorHandle find(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(("osprey::" + name).c_str(), "");
}

/// Those that are not for CPUs only.
std::vector<Sample> samples_for_gpus() {
  std::vector<Sample> result = samples();
  std::erase_if(
      result, [](const Sample& sample) { return !find(sample.name).hasKernelForDispatchKey(c10::DispatchKey::CUDA); });
  // The loops and the kernels run by a CPU make these sums alike. A GPU adds up the 60 products, of up to 16, in
  // another order: 60 roundings of 16 * 2^-24 each are 6e-5. And it contracts products with sums, of which unions are
  // differences: a few roundings of areas of about 1, divided by areas of 0.1.
  for (Sample& sample : result) {
    if (sample.name == "convolution_weight_gradient") sample.absolute = std::max(sample.absolute, 1e-4);
    if (sample.name == "giou_loss") sample.absolute = std::max(sample.absolute, 1e-5);
  }
  return result;
}

/// The results, and after them the arguments as the operator has left them.
std::vector<at::Tensor> call(const std::string& name, const Stack& arguments) {
  Stack stack = arguments;
  find(name).callBoxed(&stack);
  std::vector<at::Tensor> all = tensors_of(stack);
  for (const at::Tensor& tensor : tensors_of(arguments)) all.push_back(tensor);
  return all;
}

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes() << ' ' << tensor.strides();
  return text.str();
}

void expect_same(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& others, const Sample& sample) {
  ASSERT_EQ(ours.size(), others.size()) << sample.name;
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(describe(ours[i]), describe(others[i])) << sample.name << ", tensor " << i;
    const std::string what = sample.name + ", tensor " + std::to_string(i);
    if (sample.relative == 0 && sample.absolute == 0)
      EXPECT_TRUE(at::equal(ours[i], others[i])) << what;
    else if (sample.distance > 0)
      EXPECT_LE((ours[i] - others[i]).to(at::kDouble).norm().item<double>(),
                sample.distance * others[i].to(at::kDouble).norm().item<double>())
          << what;
    else
      expect_close(ours[i].to(at::kDouble), others[i].to(at::kDouble), sample.relative, sample.absolute, what);
  }
}

TEST(Operators, EachHasASample) {
  std::set<std::string> tried;
  for (const Sample& sample : samples()) tried.insert(sample.name);
  std::set<std::string> registered;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.name.starts_with("osprey::")) registered.insert(name.name.substr(8));
  EXPECT_EQ(tried, registered);
}

TEST(Operators, WorkOutShapesWithoutValues) {
  at::manual_seed(1);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments();
    const auto to_meta = [](const at::Tensor& tensor) { return tensor.to(at::kMeta); };
    const std::vector<at::Tensor> shapes = call(sample.name, changed(arguments, to_meta));
    const std::vector<at::Tensor> values = call(sample.name, arguments);
    ASSERT_EQ(shapes.size(), values.size()) << sample.name;
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_TRUE(shapes[i].is_meta()) << sample.name;
      EXPECT_EQ(describe(shapes[i]), describe(values[i])) << sample.name << ", tensor " << i;
    }
  }
}

/// Whether a call with these arguments ends with an error for the sake of shapes or types, not of what tensors hold.
bool refuses(const std::string& name, const Stack& arguments) {
  try {
    call(name, arguments);
  } catch (const c10::Error& error) {
    return std::string(error.what()).find("lies outside") == std::string::npos;
  }
  return false;
}

TEST(Operators, RefuseWithoutValuesWhatTheyRefuseWithThem) {
  at::manual_seed(7);
  const auto to_meta = [](const at::Tensor& tensor) { return tensor.to(at::kMeta); };
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments();
    const size_t count = tensors_of(arguments).size();
    for (size_t wrong = 0; wrong < count; ++wrong)
      for (int64_t dim = 0; dim < tensors_of(arguments)[wrong].dim(); ++dim) {
        size_t number = 0;
        const Stack changed_one = changed(arguments, [&](const at::Tensor& tensor) {
          if (number++ != wrong || tensor.size(dim) == 0) return tensor.clone();
          return tensor.narrow(dim, 0, tensor.size(dim) - 1).clone(tensor.suggest_memory_format());
        });
        EXPECT_EQ(refuses(sample.name, changed(changed_one, to_meta)), refuses(sample.name, changed_one))
            << sample.name << ", tensor " << wrong << " without the last of dimension " << dim;
      }
  }
}

TEST(Operators, RefuseTensorsOfTwoDevices) {
  at::manual_seed(7);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments();
    const size_t count = tensors_of(arguments).size();
    for (size_t moved = 0; count > 1 && moved < count; ++moved) {
      size_t number = 0;
      const Stack mixed = changed(
          arguments, [&](const at::Tensor& tensor) { return number++ == moved ? tensor.to(at::kMeta) : tensor; });
      EXPECT_THAT([&] { call(sample.name, mixed); }, ThrowsMessage<c10::Error>(HasSubstr("one device")))
          << sample.name << ", tensor " << moved;
    }
  }
}

TEST(Operators, ChangeOnlyWhatTheirSchemaSays) {
  at::manual_seed(2);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments(), before = changed(arguments, copy);
    call(sample.name, arguments);
    const auto& schema = find(sample.name).schema();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) continue;
      const auto now = tensors_of({arguments[i]}), then = tensors_of({before[i]});
      for (size_t k = 0; k < now.size(); ++k)
        EXPECT_TRUE(at::equal(now[k], then[k])) << sample.name << ", " << schema.arguments()[i].name();
    }
  }
}

TEST(Operators, RepeatThemselvesBitForBit) {
  at::manual_seed(3);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments(), again = changed(arguments, copy);
    expect_same(call(sample.name, arguments), call(sample.name, again), {sample.name, {}, 0, 0});
  }
}

TEST(Operators, ThreadsDoNotChangeABit) {
  at::manual_seed(4);
  const int threads = at::get_num_threads();
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments(), again = changed(arguments, copy);
    at::set_num_threads(1);
    const auto by_one = call(sample.name, arguments);
    at::set_num_threads(3);
    const auto by_three = call(sample.name, again);
    // Bits are a promise of the loops: on a device there are products by libtorch, whose sums threads may divide.
    expect_same(by_one, by_three, device::Emulation::active() ? sample : Sample{sample.name, {}, 0, 0});
  }
  at::set_num_threads(threads);
}

TEST(Operators, KernelsForDevicesGiveWhatTheLoopsGive) {
  at::manual_seed(4);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments(), again = changed(arguments, copy);
    const std::vector<at::Tensor> loops = call(sample.name, arguments);
    const device::Emulation emulation;
    expect_same(call(sample.name, again), loops, sample);
  }
}

TEST(Operators, TakeTensorsThatBeginAnywhere) {
  at::manual_seed(8);
  const auto one_further = [](const at::Tensor& tensor) {
    const int64_t memory = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), 1);
    const at::Tensor moved = at::empty({memory + 1}, tensor.options()).as_strided(tensor.sizes(), tensor.strides(), 1);
    return moved.copy_(tensor);
  };
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments();
    const std::vector<at::Tensor> expected = call(sample.name, changed(arguments, copy));
    const size_t count = tensors_of(arguments).size();
    for (size_t moved = 0; moved < count; ++moved) {
      const auto with_one_moved = [&] {
        size_t number = 0;
        return changed(arguments, [&](const at::Tensor& tensor) {
          return number++ == moved ? one_further(tensor) : tensor.clone();
        });
      };
      expect_same(call(sample.name, with_one_moved()), expected, sample);
      const device::Emulation emulation;
      expect_same(call(sample.name, with_one_moved()), expected, sample);
    }
  }
}

TEST(Operators, TurnsOfThreadsDoNotChangeABit) {
  at::manual_seed(6);
  for (const Sample& sample : samples()) {
    const Stack arguments = sample.arguments(), again = changed(arguments, copy);
    const device::Emulation ascending(device::Emulation::Turns::kFirstFirst);
    const std::vector<at::Tensor> first_first = call(sample.name, arguments);
    const device::Emulation descending(device::Emulation::Turns::kLastFirst);
    expect_same(call(sample.name, again), first_first, {sample.name, {}, 0, 0});
  }
}

TEST(Operators, GiveOnAGpuWhatTheyGiveOnTheCpu) {
  if (!device::compiled()) GTEST_SKIP() << "this build has no kernels for GPUs";
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here";
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  at::manual_seed(5);
  for (const Sample& sample : samples_for_gpus()) {
    const Stack arguments = sample.arguments();
    const auto there = [](const at::Tensor& tensor) { return tensor.to(at::kCUDA); };
    std::vector<at::Tensor> back;
    try {
      for (const at::Tensor& tensor : call(sample.name, changed(arguments, there))) {
        EXPECT_TRUE(tensor.is_cuda()) << sample.name;
        back.push_back(tensor.cpu());
      }
    } catch (const std::exception& error) {  // the others are still tried
      ADD_FAILURE() << sample.name << ": " << error.what();
      continue;
    }
    expect_same(back, call(sample.name, arguments), sample);
  }
}

}  // namespace
}  // namespace osprey::kernels
