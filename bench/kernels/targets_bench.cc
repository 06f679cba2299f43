// Matching and target assignment of a dense detector: the kernels, and the same composed of tensor operations; and of
// the latter the two ways in which the original gathers, of which `use_matmul_gather` chooses one.
// usage: targets_bench [BATCH] [BOXES] [ANCHORS] [CLASSES] [CALLS]; prints one JSON line, best of the calls in seconds,
// memory beyond the inputs.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdlib>

#include "measure.h"
#include "osprey/config/parse.h"
#include "osprey/protos/ssd.pb.h"
#include "osprey/targets/builder.h"

namespace {

using namespace osprey;

at::Tensor random_boxes(at::IntArrayRef shape) {
  std::vector<int64_t> pair(shape.begin(), shape.end());
  pair.push_back(2);
  const at::Tensor center = at::rand(pair), half = at::rand(pair) * 0.15;
  return at::cat({center - half, center + half}, -1);
}

struct Inputs {
  Inputs(int64_t batch, int64_t boxes, int64_t num_anchors, int64_t classes)
      : anchors(random_boxes({num_anchors})),
        truth{random_boxes({batch, boxes}), at::randint(0, classes, {batch, boxes}),
              at::ones({batch, boxes}, at::kBool), at::ones({batch, boxes})} {}
  at::Tensor anchors;
  targets::Groundtruth truth;
};

at::Tensor gathered_by_index(const at::Tensor& values, const at::Tensor& match) {
  return values.gather(1, match.clamp_min(0).unsqueeze(-1).expand({-1, -1, values.size(2)}));
}

/// The same as a product of matrices, one row with a single 1 for each anchor.
at::Tensor gathered_by_product(const at::Tensor& values, const at::Tensor& match) {
  return at::bmm(at::one_hot(match.clamp_min(0), values.size(1)).to(at::kFloat), values);
}

/// IoU of every box with every anchor, arg max, thresholds, forced matches, gather, encode: [B, A, ...] each.
Targets composed(const Inputs& in, int64_t classes) {
  const at::Tensor &boxes = in.truth.boxes, &anchors = in.anchors;
  const auto area = [](const at::Tensor& b) {
    return (b.select(-1, 2) - b.select(-1, 0)) * (b.select(-1, 3) - b.select(-1, 1));
  };
  const at::Tensor b = boxes.unsqueeze(2), a = anchors.view({1, 1, -1, 4});
  const at::Tensor extent =
      (at::minimum(b.slice(-1, 2), a.slice(-1, 2)) - at::maximum(b.slice(-1, 0, 2), a.slice(-1, 0, 2))).clamp_min(0);
  const at::Tensor common = extent.select(-1, 0) * extent.select(-1, 1);
  const at::Tensor iou = common / (area(b) + area(a) - common);
  const auto [best, row] = iou.max(1);
  at::Tensor match = at::where(best >= 0.5, row, at::full_like(row, -1));
  const at::Tensor claimed = std::get<1>(iou.max(2));
  match.scatter_(1, claimed, at::arange(boxes.size(1)).expand_as(claimed));
  const at::Tensor found = match.clamp_min(0), positive = match.ge(0), box = gathered_by_index(boxes, match);
  Targets targets;
  targets.match.box = match;
  targets.classes =
      class_targets(at::one_hot(in.truth.classes.gather(1, found), classes).to(at::kFloat) * positive.unsqueeze(-1),
                    at::ones({match.size(0), match.size(1), 1}));
  const at::Tensor size = anchors.slice(-1, 2) - anchors.slice(-1, 0, 2), center = anchors.slice(-1, 0, 2) + size / 2;
  const at::Tensor box_size = box.slice(-1, 2) - box.slice(-1, 0, 2), box_center = box.slice(-1, 0, 2) + box_size / 2;
  targets.boxes =
      at::cat({(box_center - center) / size * 10, (box_size / size).log() * 5}, -1) * positive.unsqueeze(-1);
  targets.box_weights = positive.to(at::kFloat);
  return targets;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, int64_t otherwise) { return argc > index ? std::atol(argv[index]) : otherwise; };
  const int64_t batch = argument(1, 8), boxes = argument(2, 100), anchors = argument(3, 51150),
                classes = argument(4, 90), calls = argument(5, 5);
  const Measured kernel = measure_apart(calls, [&] {
    const auto config = config::parse<proto::Ssd>(
        fmt::format(
            "num_classes: {} encode_background_as_zeros: true matcher {{ argmax_matcher {{ matched_threshold: 0.5 "
            "unmatched_threshold: 0.5 force_match_for_each_row: true }} }} similarity_calculator {{ "
            "iou_similarity {{}} }} box_coder {{ faster_rcnn_box_coder {{}} }}",
            classes),
        "ssd");
    return [in = Inputs(batch, boxes, anchors, classes),
            assigner = std::shared_ptr<targets::TargetAssigner>(targets::build_target_assigner(config.node()))] {
      assigner->assign(in.anchors, in.truth);
    };
  });
  const Measured operations = measure_apart(
      calls, [&] { return [in = Inputs(batch, boxes, anchors, classes), classes] { composed(in, classes); }; });
  const auto gather = [&](auto gathered) {
    return measure_apart(calls, [&] {
      return [values = random_boxes({batch, boxes}), match = at::randint(-1, boxes, {batch, anchors}), gathered] {
        gathered(values, match);
      };
    });
  };
  const Measured by_index = gather(gathered_by_index), by_product = gather(gathered_by_product);
  fmt::print(
      "{{\"shape\": [{}, {}, {}, {}], \"kernel_s\": {:.4f}, \"composed_s\": {:.4f}, \"ratio\": {:.1f}, "
      "\"kernel_mib\": {:.1f}, \"composed_mib\": {:.1f}, \"gather_by_index_s\": {:.4f}, \"gather_by_product_s\": "
      "{:.4f}}}\n",
      batch, boxes, anchors, classes, kernel.seconds, operations.seconds, operations.seconds / kernel.seconds,
      kernel.mebibytes, operations.mebibytes, by_index.seconds, by_product.seconds);
}
