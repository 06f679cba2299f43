#include "export/tflite/model.h"

#include <ATen/ATen.h>
#include <flatbuffers/flexbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "export/tflite/metadata.h"
#include "export/tflite/network.h"
#include "osprey/base/error.h"

namespace osprey::tflite {
namespace {

const std::string kSuppression = "TFLite_Detection_PostProcess";

/// Anchors as centers and sizes, [A, 4]: y, x, height, width.
at::Tensor centers_and_sizes(const at::Tensor& anchors) {
  const at::Tensor first = anchors.slice(1, 0, 2), last = anchors.slice(1, 2, 4);
  return at::cat({(first + last) / 2, last - first}, 1).to(at::kFloat).contiguous();
}

std::vector<uint8_t> suppression_options(const boxes::NmsOptions& nms, const kernels::CodeScales& scales,
                                         int64_t num_classes) {
  flexbuffers::Builder options;
  options.Map([&] {
    options.Int("max_detections", nms.max_total_detections);
    options.Int("max_classes_per_detection", 1);
    options.Int("detections_per_class", nms.max_detections_per_class);
    options.Bool("use_regular_nms", !nms.class_agnostic);
    // The operation keeps scores that are no less, a model those that are more, and of some none below zero; and the
    // operation wants an overlap in (0, 1].
    const float least = std::nextafter(nms.score_threshold, std::numeric_limits<float>::infinity());
    options.Float("nms_score_threshold", nms.combined ? least : std::max(least, 0.f));
    options.Float("nms_iou_threshold", std::clamp(nms.iou_threshold, std::numeric_limits<float>::min(), 1.f));
    options.Int("num_classes", num_classes);
    options.Float("y_scale", scales.y);
    options.Float("x_scale", scales.x);
    options.Float("h_scale", scales.height);
    options.Float("w_scale", scales.width);
  });
  options.Finish();
  return options.GetBuffer();
}

/// Boxes, classes from 0, scores and their number.
/// codes [1, A, 4], scores [1, A, C], anchors [A, 4]
std::vector<Value> add_suppression(Graph& graph, const Value& codes, Value scores, const at::Tensor& anchors,
                                   const boxes::NmsOptions& nms, const kernels::CodeScales& scales) {
  // With T > 1 threads the operation that goes class by class passes over class T (LiteRT 2.3, TensorFlow Lite 2.8, of
  // which each thread counts on before it takes its next class). So the first classes are some that are never found.
  constexpr int64_t kMostThreads = 32;
  const int64_t unused = nms.class_agnostic ? 0 : kMostThreads + 1, most = nms.max_total_detections,
                num_anchors = graph.shape(scores)[1], num_classes = graph.shape(scores)[2];
  if (unused > 0) {
    const Value before = graph.constant(at::tensor({0L, 0L, 0L, 0L, unused, 0L}, at::kInt).view({3, 2}));
    scores = graph.add(BuiltinOperator_PADV2, {scores, before, graph.number(std::min(nms.score_threshold, 0.f) - 1)},
                       {1, num_anchors, unused + num_classes});
  }
  std::vector<Value> found = graph.add_custom(
      kSuppression.c_str(), {codes, scores, graph.constant(centers_and_sizes(anchors))},
      {{1, most, 4}, {1, most}, {1, most}, {1}}, suppression_options(nms, scales, unused + num_classes));
  if (unused > 0) {
    Value& classes = found[1];
    const Value offset = graph.number(static_cast<double>(unused));
    classes = graph.add(BuiltinOperator_SUB, {classes, offset}, {1, most}, SubOptionsT());
    classes = graph.add(BuiltinOperator_MAXIMUM, {classes, graph.number(0)}, {1, most});
  }
  return found;
}

/// The file of a graph whose first value is the picture.
File file_of(Graph& graph, const std::string& metadata) {
  constexpr Value kPicture{0};
  const std::string type = graph.type(kPicture) == TensorType_FLOAT32 ? "float32" : "uint8";
  graph.add_metadata(kMetadataName, metadata);
  return {graph.file(), type};
}

}  // namespace

File detector(models::DetectionModel& model, const std::array<int64_t, 2>& canvas, const Calibration* calibration) {
  const kernels::CodeScales* scales = model.center_size_scales();
  if (scales == nullptr)
    throw ConfigError("TensorFlow Lite decodes boxes of center and size alone, those of faster_rcnn_box_coder");
  const boxes::NmsOptions& nms = model.nms_options();
  if (nms.soft_nms_sigma > 0) throw ConfigError("TensorFlow Lite has no soft suppression (soft_nms_sigma)");
  Graph graph("detector");
  at::Tensor anchors;
  const std::vector<Value> found = add_network(
      graph, model, canvas,
      [&](const Predictions& predictions) {
        const models::Candidates candidates = model.candidates(predictions);
        if (candidates.boxes.dim() != 3) throw ConfigError("TensorFlow Lite has no boxes of each class");
        anchors = predictions.anchors;
        return c10::ivalue::Tuple::create({predictions.box_encodings, candidates.scores});
      },
      calibration);
  const std::vector<Value> outputs = add_suppression(graph, found[0], found[1], anchors, nms, *scales);
  for (size_t i = 0; i < outputs.size(); ++i)
    graph.output((i == 0 ? kSuppression : fmt::format("{}:{}", kSuppression, i)).c_str(), outputs[i]);
  return file_of(graph, detector_metadata());
}

File classifier(models::DetectionModel& model, const std::array<int64_t, 2>& canvas, const Calibration* calibration) {
  Graph graph("classifier");
  const std::vector<Value> found = add_network(
      graph, model, canvas,
      [&](const Predictions& predictions) {
        return c10::ivalue::Tuple::create({model.candidates(predictions).scores.squeeze(1)});
      },
      calibration);
  graph.output("scores", found[0]);
  return file_of(graph, classifier_metadata());
}

}  // namespace osprey::tflite
