#include "export/onnx/model.h"

#include <ATen/ATen.h>

#include "export/onnx/network.h"
#include "export/onnx/pictures.h"
#include "export/onnx/suppression.h"

namespace osprey {
namespace {

/// What of the canvas is picture.
struct Content {
  OnnxValue window;  ///< [4] float32: as shares of the canvas
  OnnxValue shapes;  ///< [B, 2] int64: in pixels
};

Content content_of(OnnxGraph& graph, const OnnxCanvas& canvas, const ServedResize& resize, int64_t batch_size) {
  const auto share = [&](const OnnxValue& used, int64_t length) {
    return graph.unsqueeze(graph.add("Div", {graph.cast(used, at::kFloat), graph.number(static_cast<double>(length))}),
                           0);
  };
  const OnnxValue size = graph.concat({graph.unsqueeze(canvas.height, 0), graph.unsqueeze(canvas.width, 0)}, 0);
  return {
      graph.concat(
          {graph.constant(at::zeros({2})), share(canvas.height, resize.height), share(canvas.width, resize.width)}, 0),
      graph.add("Expand", {size, graph.integers({batch_size, 2})})};
}

}  // namespace

std::string onnx_model(const torch::jit::Module& served, int64_t batch_size) {
  OnnxGraph graph("detector");
  const ServedResize resize = served_resize(served);
  const boxes::NmsOptions nms = served_nms_options(served);
  const OnnxValue pictures = graph.input("input_tensor", at::kByte, {batch_size, "height", "width", int64_t{3}});
  const OnnxCanvas canvas = add_resize(graph, pictures, resize);
  const Content content = content_of(graph, canvas, resize, batch_size);
  const auto network = served.attr("net").toModule().get_method("forward").graph();
  const std::vector<OnnxValue> candidates = add_network(graph, *network, {canvas.images, content.shapes});
  const auto columns = network->outputs()[0]->node()->input(0)->type()->expectRef<c10::TensorType>().sizes()[2];

  std::vector<OnnxDetections> found;
  for (int64_t b = 0; b < batch_size; ++b)
    found.push_back(add_suppression(graph, graph.select(candidates[0], 0, b), columns.value(),
                                    graph.select(candidates[1], 0, b), content.window, nms));
  const auto stacked = [&](OnnxValue OnnxDetections::*part) {
    std::vector<OnnxValue> parts;
    for (const OnnxDetections& one : found) parts.push_back(graph.unsqueeze(one.*part, 0));
    return graph.concat(parts, 0);
  };
  const int64_t most = nms.max_total_detections;
  graph.output("num_detections", stacked(&OnnxDetections::count), at::kFloat, {batch_size});
  graph.output("detection_boxes", stacked(&OnnxDetections::boxes), at::kFloat, {batch_size, most, int64_t{4}});
  graph.output("detection_scores", stacked(&OnnxDetections::scores), at::kFloat, {batch_size, most});
  graph.output("detection_classes", stacked(&OnnxDetections::classes), at::kFloat, {batch_size, most});
  return graph.file();
}

}  // namespace osprey
