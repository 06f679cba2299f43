// Focal loss, forward and backward, of dense detectors' logits: the kernel, and the same loss composed of tensor
// operations.
// usage: focal_loss_bench [BATCH] [ANCHORS] [CLASSES] [CALLS]; prints one JSON line, best of the calls in seconds.
// The same shape by torchvision: bench/peers/torchvision_focal_loss.py
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>
#include <limits>

#include "cli/cli.h"
#include "osprey/base/clock.h"
#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"

int main(int argc, char** argv) {
  using namespace osprey;
  const auto argument = [&](int index, int64_t otherwise) { return argc > index ? std::atol(argv[index]) : otherwise; };
  const int64_t batch = argument(1, 8), anchors = argument(2, 51150), classes = argument(3, 90), calls = argument(4, 5);
  cli::keep_freed_memory();
  const auto config =
      config::parse<proto::ClassificationLoss>("weighted_sigmoid_focal { gamma: 2 alpha: 0.25 }", "loss");
  const auto loss = losses::build_classification_loss(config.node());
  at::Tensor logits = at::randn({batch, anchors, classes}).sub_(4).requires_grad_(true);
  const at::Tensor targets = at::zeros_like(logits), weights = at::ones({batch, anchors, 1});
  targets.narrow(1, 0, anchors / 200).select(2, 0).fill_(1);
  const auto seconds = [&](const auto& forward) {
    double best = std::numeric_limits<double>::infinity();
    for (int64_t call = 0; call < calls; ++call) {
      logits.mutable_grad() = at::Tensor();
      const double start = now();
      forward().sum().backward();
      best = std::min(best, now() - start);
    }
    return best;
  };
  const double fused = seconds([&] { return loss->summed(logits, targets, weights); });
  const double composed = seconds([&] { return (*loss)(logits, targets, weights); });
  fmt::print("{{\"shape\": [{}, {}, {}], \"kernel_s\": {:.4f}, \"composed_s\": {:.4f}, \"ratio\": {:.2f}}}\n", batch,
             anchors, classes, fused, composed, composed / fused);
}
