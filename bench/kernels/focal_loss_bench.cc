// Focal loss, forward and backward, of dense detectors' logits: the kernel, and the same loss composed of tensor
// operations.
// usage: focal_loss_bench [BATCH] [ANCHORS] [CLASSES] [CALLS]; prints one JSON line, best of the calls in seconds.
// The same shape by torchvision: bench/peers/torchvision_focal_loss.py
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>

#include "measure.h"
#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"

int main(int argc, char** argv) {
  using namespace osprey;
  const auto argument = [&](int index, int64_t otherwise) { return argc > index ? std::atol(argv[index]) : otherwise; };
  const int64_t batch = argument(1, 8), anchors = argument(2, 51150), classes = argument(3, 90), calls = argument(4, 5);
  const auto config =
      config::parse<proto::ClassificationLoss>("weighted_sigmoid_focal { gamma: 2 alpha: 0.25 }", "loss");
  const auto loss = losses::build_classification_loss(config.node());
  at::Tensor logits = at::randn({batch, anchors, classes}).sub_(4).requires_grad_(true);
  const at::Tensor rows = at::zeros({batch, 2, classes}), row = at::zeros({batch, anchors}, at::kLong);
  rows.select(1, 1).select(1, 0).fill_(1);
  row.narrow(1, 0, anchors / 200).fill_(1);
  const ClassTargets by_row{rows, at::ones({batch, 2, 1}), row};
  const at::Tensor targets = by_row.of_anchors(), weights = by_row.weights_of_anchors();
  const auto seconds = [&](const auto& forward) {
    return best_of(calls, [&] {
      logits.mutable_grad() = at::Tensor();
      forward().sum().backward();
    });
  };
  const double fused = seconds([&] { return loss->summed(logits, by_row); });
  const double composed = seconds([&] { return (*loss)(logits, targets, weights); });
  fmt::print("{{\"shape\": [{}, {}, {}], \"kernel_s\": {:.4f}, \"composed_s\": {:.4f}, \"ratio\": {:.2f}}}\n", batch,
             anchors, classes, fused, composed, composed / fused);
}
