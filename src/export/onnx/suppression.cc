#include "export/onnx/suppression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "osprey/base/error.h"

namespace osprey {
namespace {

/// Pairs of box and class, those of a class together and best first.
struct Pairs {
  OnnxValue boxes;    ///< [n, 4]
  OnnxValue scores;   ///< [n]
  OnnxValue classes;  ///< [n] int64, from 0
};

OnnxValue transposed(OnnxGraph& graph, const OnnxValue& x, const std::vector<int64_t>& order) {
  return graph.add("Transpose", {x}, {{"perm", order}});
}

/// What ONNX's own suppression leaves of the pairs of one picture.
///
/// It takes lists of boxes and, for each list, the scores of its boxes for some classes. Boxes that each class has for
/// itself are a list for each, of one class.
Pairs suppressed(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns, const OnnxValue& scores,
                 const boxes::NmsOptions& options) {
  const bool list_per_class = num_box_columns > 1 && !options.class_agnostic;
  const OnnxValue shared = graph.select(boxes, 1, 0);  // [A, 4]
  const OnnxValue lists = list_per_class ? transposed(graph, boxes, {1, 0, 2}) : graph.unsqueeze(shared, 0);
  const OnnxValue by_class = transposed(
      graph,
      options.class_agnostic ? graph.add("ReduceMax", {scores}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", 1}})
                             : scores,
      {1, 0});  // [C, A]
  const int64_t most = options.class_agnostic ? options.max_total_detections : options.max_detections_per_class;
  const OnnxValue picked =
      graph.add("NonMaxSuppression", {lists, graph.unsqueeze(by_class, list_per_class ? 1 : 0), graph.integers({most}),
                                      graph.constant(at::full({1}, std::min(options.iou_threshold, 1.f))),
                                      graph.constant(at::full({1}, options.score_threshold))});
  // Its result has a line for each pair: list, class within the list, row.
  const OnnxValue classes = graph.select(picked, 1, list_per_class ? 0 : 1), rows = graph.select(picked, 1, 2);
  const OnnxValue places = graph.concat({graph.unsqueeze(classes, 1), graph.unsqueeze(rows, 1)}, 1);
  Pairs pairs;
  pairs.boxes = list_per_class ? graph.add("GatherND", {lists, places}) : graph.add("Gather", {shared, rows});
  pairs.scores = graph.add("GatherND", {by_class, places});
  pairs.classes = options.class_agnostic
                      ? graph.add("Gather", {graph.add("ArgMax", {scores}, {{"axis", 1}, {"keepdims", 0}}), rows})
                      : classes;
  return pairs;
}

/// The pairs whose boxes have an area and whose scores are not negative.
Pairs pruned(OnnxGraph& graph, const Pairs& pairs) {
  const auto corner = [&](int64_t k) { return graph.select(pairs.boxes, 1, k); };
  const auto side = [&](int64_t k) { return graph.add("Sub", {corner(k + 2), corner(k)}); };
  const OnnxValue no_area = graph.add("LessOrEqual", {graph.add("Mul", {side(0), side(1)}), graph.number(0)});
  const OnnxValue negative = graph.add("Less", {pairs.scores, graph.number(0)});
  const OnnxValue kept = graph.add("Not", {graph.add("Or", {no_area, negative})});
  const auto of = [&](const OnnxValue& x) { return graph.add("Compress", {x, kept}, {{"axis", 0}}); };
  return {of(pairs.boxes), of(pairs.scores), of(pairs.classes)};
}

}  // namespace

OnnxDetections add_suppression(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns,
                               const OnnxValue& scores, const OnnxValue& window, const boxes::NmsOptions& options) {
  if (options.soft_nms_sigma > 0) throw ConfigError("ONNX has no soft suppression (soft_nms_sigma)");
  const int64_t rows = options.max_total_detections;
  Pairs pairs = suppressed(graph, boxes, num_box_columns, scores, options);
  const OnnxValue first = graph.slice(window, 0, 0, 2), last = graph.slice(window, 0, 2, 4);
  const OnnxValue low = graph.concat({first, first}, 0), high = graph.concat({last, last}, 0);
  pairs.boxes = graph.add("Max", {graph.add("Min", {pairs.boxes, high}), low});
  if (!options.combined) pairs = pruned(graph, pairs);
  if (options.change_coordinate_frame)
    pairs.boxes = graph.add("Div", {graph.add("Sub", {pairs.boxes, low}), graph.add("Sub", {high, low})});

  // The best, of all pairs and as many that stand for nothing.
  const auto with = [&](const OnnxValue& x, const at::Tensor& nothing) {
    return graph.concat({x, graph.constant(nothing)}, 0);
  };
  const std::vector<OnnxValue> best =
      graph.add("TopK", 2, {with(pairs.scores, at::full({rows}, -INFINITY)), graph.integers({rows})}, {{"axis", 0}});
  const auto of_best = [&](const OnnxValue& x) { return graph.add("Gather", {x, best[1]}); };
  const OnnxValue from_one = graph.add("Add", {graph.cast(pairs.classes, at::kFloat), graph.number(1)});
  OnnxDetections result;
  const OnnxValue count = graph.add("Min", {graph.size(pairs.scores, 0), graph.integer(rows)});
  result.count = graph.cast(count, at::kFloat);
  result.boxes = of_best(with(pairs.boxes, at::zeros({rows, 4})));
  result.classes = of_best(with(from_one, at::zeros({rows})));
  result.scores = graph.add("Where", {graph.add("Less", {graph.constant(at::arange(rows)), count}), best[0],
                                      graph.number(options.padding_score)});
  return result;
}

}  // namespace osprey
