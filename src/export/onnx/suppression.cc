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
  OnnxValue anchors;  ///< [n] int64
};

OnnxValue transposed(OnnxGraph& graph, const OnnxValue& x, const std::vector<int64_t>& order) {
  return graph.add("Transpose", {x}, {{"perm", order}});
}

/// What ONNX's own suppression leaves of the pairs of one picture.
///
/// lists     [L, A, 4] boxes: one list for all classes, or one for each
/// by_class  [C, A] scores
/// most      how many of a class may be left
Pairs suppressed(OnnxGraph& graph, const OnnxValue& lists, bool list_per_class, const OnnxValue& by_class, int64_t most,
                 const boxes::NmsOptions& options) {
  const OnnxValue picked =
      graph.add("NonMaxSuppression", {lists, graph.unsqueeze(by_class, list_per_class ? 1 : 0), graph.integers({most}),
                                      graph.constant(at::full({1}, std::min(options.iou_threshold, 1.f))),
                                      graph.constant(at::full({1}, options.score_threshold))});
  // Its result has a line for each pair: list, class among those of the list, anchor.
  const auto column = [&](int64_t k) { return graph.unsqueeze(graph.select(picked, 1, k), 1); };
  const OnnxValue class_and_anchor = graph.concat({column(list_per_class ? 0 : 1), column(2)}, 1);
  Pairs pairs;
  pairs.boxes = graph.add("GatherND", {lists, graph.concat({column(0), column(2)}, 1)});
  pairs.scores = graph.add("GatherND", {by_class, class_and_anchor});
  pairs.classes = graph.select(class_and_anchor, 1, 0);
  pairs.anchors = graph.select(class_and_anchor, 1, 1);
  return pairs;
}

/// The same among all classes: each anchor's best class, with the box that it has for it, stands for the anchor.
Pairs suppressed_among_classes(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns,
                               const OnnxValue& scores, const boxes::NmsOptions& options) {
  const OnnxValue labels = graph.add("ArgMax", {scores}, {{"axis", 1}, {"keepdims", 0}});
  OnnxValue best = graph.select(boxes, 1, 0);
  if (num_box_columns > 1) best = graph.add("GatherND", {boxes, graph.unsqueeze(labels, 1)}, {{"batch_dims", 1}});
  const OnnxValue highest =
      graph.add("ReduceMax", {scores}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", 1}});  // [A, 1]
  Pairs pairs = suppressed(graph, graph.unsqueeze(best, 0), false, transposed(graph, highest, {1, 0}),
                           options.max_total_detections, options);
  pairs.classes = graph.add("Gather", {labels, pairs.anchors});
  return pairs;
}

/// Each class's pairs, suppressed by themselves.
Pairs suppressed_by_class(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns, const OnnxValue& scores,
                          const boxes::NmsOptions& options) {
  return suppressed(graph, transposed(graph, boxes, {1, 0, 2}), num_box_columns > 1, transposed(graph, scores, {1, 0}),
                    options.max_detections_per_class, options);
}

/// The pairs whose boxes have an area and whose scores are not negative.
Pairs pruned(OnnxGraph& graph, const Pairs& pairs) {
  const auto corner = [&](int64_t k) { return graph.select(pairs.boxes, 1, k); };
  const auto side = [&](int64_t k) { return graph.add("Sub", {corner(k + 2), corner(k)}); };
  const OnnxValue no_area = graph.add("LessOrEqual", {graph.add("Mul", {side(0), side(1)}), graph.number(0)});
  const OnnxValue negative = graph.add("Less", {pairs.scores, graph.number(0)});
  const OnnxValue kept = graph.add("Not", {graph.add("Or", {no_area, negative})});
  const auto of = [&](const OnnxValue& x) { return graph.add("Compress", {x, kept}, {{"axis", 0}}); };
  return {of(pairs.boxes), of(pairs.scores), of(pairs.classes), of(pairs.anchors)};
}

}  // namespace

OnnxDetections add_suppression(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns,
                               const OnnxValue& scores, const OnnxValue& window, const boxes::NmsOptions& options) {
  if (options.soft_nms_sigma > 0) throw ConfigError("ONNX has no soft suppression (soft_nms_sigma)");
  const int64_t most = options.max_total_detections;
  // Boxes without end have no overlap that ONNX would see.
  const OnnxValue finite = graph.add("Clip", {boxes, graph.number(-1e18), graph.number(1e18)});
  Pairs pairs = (options.class_agnostic ? suppressed_among_classes : suppressed_by_class)(
      graph, finite, num_box_columns, scores, options);
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
      graph.add("TopK", 2, {with(pairs.scores, at::full({most}, -INFINITY)), graph.integers({most})}, {{"axis", 0}});
  const auto of_best = [&](const OnnxValue& x) { return graph.add("Gather", {x, best[1]}); };
  const OnnxValue from_one = graph.add("Add", {graph.cast(pairs.classes, at::kFloat), graph.number(1)});
  OnnxDetections result;
  const OnnxValue count = graph.add("Min", {graph.size(pairs.scores, 0), graph.integer(most)});
  result.count = graph.cast(count, at::kFloat);
  result.boxes = of_best(with(pairs.boxes, at::zeros({most, 4})));
  result.classes = of_best(with(from_one, at::zeros({most})));
  result.scores = graph.add("Where", {graph.add("Less", {graph.constant(at::arange(most)), count}), best[0],
                                      graph.number(options.padding_score)});
  return result;
}

}  // namespace osprey
