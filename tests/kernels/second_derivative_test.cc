#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "osprey/kernels/activated_convolution.h"
#include "osprey/kernels/box_codes.h"
#include "osprey/kernels/box_loss.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/rounded_map.h"
#include "osprey/kernels/sliding_convolution.h"
#include "osprey/kernels/squeeze_excite.h"
#include "osprey/kernels/summed_convolution.h"

namespace osprey::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Differentiable {
  const char* name;
  at::Tensor input;
  std::function<at::Tensor()> result;

  at::Tensor gradient(bool create_graph) const {
    return torch::autograd::grad({result().square().sum()}, {input}, {}, /*retain_graph=*/std::nullopt, create_graph)
        .front();
  }
};

TEST(SecondDerivative, IsRefusedByAllThatHasAFirstOne) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({1, 16, 12, 12}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(),
                   addend = x.detach(), boxes = at::rand({1, 5, 4}).requires_grad_(), anchors = at::rand({5, 4}),
                   ones = at::ones({16}), of_boxes = at::ones({1, 5});
  const at::Tensor point = at::randn({16, 16, 1, 1}), square = at::randn({16, 16, 3, 3}),
                   depthwise = at::randn({16, 1, 3, 3});
  const PendingMap pending{x, ones, ones};
  const Differentiable all[] = {
      {"pointwise_convolution", x, [&] { return pointwise_convolution(x, point); }},
      {"sliding_convolution", x, [&] { return sliding_convolution(x, square).front(); }},
      {"depthwise_convolution", x, [&] { return depthwise_convolution(x, depthwise, {}); }},
      {"normalized_convolution", x, [&] { return normalized_convolution(pending, square, {}, 1e-3).y; }},
      {"activated_convolution", x, [&] { return activated_convolution(pending, point, {}, {}, addend).y; }},
      {"summed_convolution", x, [&] { return summed_convolution(pending, addend, point, 1e-3).made.y; }},
      {"batch_norm_activation", x, [&] { return batch_norm_activation(x, {}, {}, 1e-3, {}).y; }},
      {"pending_values", x, [&] { return pending_values(pending); }},
      {"pending_sum", x, [&] { return pending_sum(pending, addend); }},
      {"rounded_values", x,
       [&] {
         return rounded_values(pending, {.range = at::tensor({-1.0f, 1.0f})});
       }},
      {"squeeze", x, [&] { return squeeze(pending).means; }},
      {"excite", x,
       [&] {
         return excite(pending, at::ones({1, 16}));
       }},
      {"decode_boxes", boxes, [&] { return decode_boxes(boxes, anchors, {}); }},
      {"a loss", boxes, [&] { return smooth_l1_loss(boxes, at::zeros_like(boxes), of_boxes, 1); }}};
  for (const Differentiable& one : all) {
    EXPECT_TRUE(one.gradient(/*create_graph=*/false).defined()) << one.name;
    EXPECT_THAT([&] { one.gradient(/*create_graph=*/true); },
                ThrowsMessage<c10::Error>(AllOf(HasSubstr(one.name), HasSubstr("has no second derivative"))));
  }
}

}  // namespace
}  // namespace osprey::kernels
