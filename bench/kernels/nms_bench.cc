// Post-processing of a dense detector on one picture: decoding of all boxes, scores of all logits, suppression by
// class. usage: nms_bench [BATCH] [ANCHORS] [CLASSES] [SCORE_THRESHOLD] [CALLS]; prints one JSON line, best of the
// calls in seconds. The same by torchvision: bench/peers/torchvision_nms.py
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>

#include "measure.h"
#include "osprey/boxes/post_processing.h"

int main(int argc, char** argv) {
  using namespace osprey;
  const auto argument = [&](int index, double otherwise) { return argc > index ? std::atof(argv[index]) : otherwise; };
  const auto batch = static_cast<int64_t>(argument(1, 1)), anchors = static_cast<int64_t>(argument(2, 51150)),
             classes = static_cast<int64_t>(argument(3, 90)), calls = static_cast<int64_t>(argument(5, 5));
  const double threshold = argument(4, 0.98);
  at::manual_seed(0);
  const at::Tensor center = at::rand({anchors, 2}), half = at::rand({anchors, 2}) * 0.15;
  const at::Tensor priors = at::cat({center - half, center + half}, -1), codes = at::randn({batch, anchors, 4});
  const at::Tensor logits = at::rand({batch, anchors, classes}).logit();  // a fiftieth of the scores is above 0.98
  boxes::NmsOptions options;
  options.score_threshold = static_cast<float>(threshold);
  const boxes::PostProcessor process(options, {.converter = boxes::ScoreConverter::kSigmoid});
  const at::Tensor window = at::tensor({0.0f, 0.0f, 1.0f, 1.0f});
  const boxes::BoxCoding coding{priors, {}};
  const double seconds = best_of(calls, [&] { process(codes, logits, false, window, &coding); });
  fmt::print("{{\"shape\": [{}, {}, {}], \"score_threshold\": {}, \"osprey_s\": {:.5f}}}\n", batch, anchors, classes,
             threshold, seconds);
}
