// Focal loss, forward and backward, of dense detectors' logits: the kernel, and the same loss composed of tensor
// operations.
// usage: focal_loss_bench [BATCH] [ANCHORS] [CLASSES] [CALLS]; prints one JSON line, best of the calls in seconds
// and what they take beside logits and targets at most.
// The same shape by torchvision: bench/peers/torchvision_focal_loss.py
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>

#include "measure.h"
#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"

namespace {

using namespace osprey;

/// Logits, and targets of which every 200th anchor has one.
struct Inputs {
  Inputs(int64_t batch, int64_t anchors, int64_t classes)
      : logits(at::randn({batch, anchors, classes}).sub_(4).requires_grad_(true)),
        targets{at::zeros({batch, 2, classes}), at::ones({batch, 2, 1}), at::zeros({batch, anchors}, at::kLong)} {
    targets.rows.select(1, 1).select(1, 0).fill_(1);
    targets.row.narrow(1, 0, anchors / 200).fill_(1);
  }
  at::Tensor logits;
  ClassTargets targets;
};

/// Best time, and memory beside the inputs, of a loss and its gradient.   prepare(inputs) -> what computes the loss
template <class Prepare>
Measured measured(int64_t calls, const std::vector<int64_t>& shape, Prepare prepare) {
  return measure_apart(calls, [&] {
    const Inputs in(shape[0], shape[1], shape[2]);
    return [logits = in.logits, forward = prepare(in)] {
      logits.mutable_grad() = at::Tensor();
      forward().sum().backward();
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, int64_t otherwise) { return argc > index ? std::atol(argv[index]) : otherwise; };
  const std::vector<int64_t> shape = {argument(1, 8), argument(2, 51150), argument(3, 90)};
  const int64_t calls = argument(4, 5);
  const auto config =
      config::parse<proto::ClassificationLoss>("weighted_sigmoid_focal { gamma: 2 alpha: 0.25 }", "loss");
  const std::shared_ptr<losses::ClassificationLoss> loss = losses::build_classification_loss(config.node());
  const Measured fused =
      measured(calls, shape, [=](const Inputs& in) { return [=] { return loss->summed(in.logits, in.targets); }; });
  const Measured composed = measured(calls, shape, [=](const Inputs& in) {
    const at::Tensor targets = in.targets.of_anchors(), weights = in.targets.weights_of_anchors();
    return [=] { return (*loss)(in.logits, targets, weights); };
  });
  const double input = static_cast<double>(shape[0] * shape[1] * shape[2] * 4) / (1 << 20);
  fmt::print(
      "{{\"shape\": [{}, {}, {}], \"kernel_s\": {:.4f}, \"composed_s\": {:.4f}, \"ratio\": {:.2f}, "
      "\"kernel_mib\": {:.0f}, \"composed_mib\": {:.0f}, \"input_mib\": {:.0f}}}\n",
      shape[0], shape[1], shape[2], fused.seconds, composed.seconds, composed.seconds / fused.seconds, fused.mebibytes,
      composed.mebibytes, input);
}
