#include "export/served_module.h"

#include <ATen/ATen.h>

#include "export/quantization.h"
#include "export/served_script.h"
#include "export/traced_network.h"

namespace osprey {
namespace {

/// The network from canvas to candidates, with `forward` alone.
torch::jit::Module network_module(models::DetectionModel& model, const ServedResize& resize, int64_t batch_size,
                                  at::MemoryFormat memory_format, const Calibration* calibration) {
  const int64_t height = resize.height, width = resize.width;
  const at::Tensor images = at::zeros({batch_size, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor shapes = at::tensor({height, width}, at::kLong).repeat({batch_size, 1});
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    Batch batch;
    batch.images = inputs.at(0).toTensor();
    batch.true_shapes = inputs.at(1).toTensor();
    models::ModelInput input = model.preprocess(batch);
    input.images = input.images.contiguous(memory_format);  // convolutions give maps of the format that they read
    const models::Candidates found = model.candidates(model.predict(input));
    // One form for boxes that all classes share and for boxes per class.
    const at::Tensor boxes = found.boxes.dim() == 3 ? found.boxes.unsqueeze(2) : found.boxes;
    return {c10::ivalue::Tuple::create({boxes.to(at::kFloat), found.scores.to(at::kFloat)})};
  };
  std::shared_ptr<torch::jit::Graph> graph = traced_network(model, {images, shapes}, network);
  if (calibration != nullptr) graph = quantized(*graph, *calibration);
  // A convolution's map takes the format of its weights where the two differ.
  for (torch::jit::Node* node : graph->nodes())
    if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value) &&
        node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t)
      if (const at::Tensor value = node->t(c10::attr::value); value.dim() == 4)
        node->t_(c10::attr::value, value.contiguous(memory_format));

  torch::jit::Module net("osprey.Network");
  graph->insertInput(0, "self")->setType(net.type());
  net.type()->addMethod(net._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*net.type()->name(), "forward"), graph, /*shouldMangle=*/false));
  return net;
}

}  // namespace

torch::jit::Module served_module(models::DetectionModel& model, const ServedResize& resize, int64_t batch_size,
                                 at::MemoryFormat memory_format, const Calibration* calibration) {
  torch::jit::Module served("osprey.Detector");
  served.register_module("net", network_module(model, resize, batch_size, memory_format, calibration));

  const auto integer = [&](const char* name, int64_t value) {
    served.register_attribute(name, c10::IntType::get(), value);
  };
  const auto number = [&](const char* name, double value) {
    served.register_attribute(name, c10::FloatType::get(), value);
  };
  const auto flag = [&](const char* name, bool value) { served.register_attribute(name, c10::BoolType::get(), value); };
  const boxes::NmsOptions& nms = model.nms_options();
  integer("height", resize.height);
  integer("width", resize.width);
  integer("min_dimension", resize.min_dimension);
  integer("max_dimension", resize.max_dimension);
  integer("max_per_class", nms.class_agnostic ? nms.max_total_detections : nms.max_detections_per_class);
  integer("max_total", nms.max_total_detections);
  number("score_threshold", nms.score_threshold);
  number("iou_threshold", nms.iou_threshold);
  number("soft_nms_sigma", nms.soft_nms_sigma);
  number("absent_score", nms.padding_score);
  flag("class_agnostic", nms.class_agnostic);
  flag("prune", !nms.combined);
  flag("to_content", nms.change_coordinate_frame);
  served.define(kServedScript);
  served.eval();
  return served;
}

ServedResize served_resize(const torch::jit::Module& served) {
  const auto of = [&](const char* name) { return served.attr(name).toInt(); };
  return {of("height"), of("width"), of("min_dimension"), of("max_dimension")};
}

boxes::NmsOptions served_nms_options(const torch::jit::Module& served) {
  const auto number = [&](const char* name) { return static_cast<float>(served.attr(name).toDouble()); };
  const auto flag = [&](const char* name) { return served.attr(name).toBool(); };
  return {.score_threshold = number("score_threshold"),
          .iou_threshold = number("iou_threshold"),
          .max_detections_per_class = served.attr("max_per_class").toInt(),
          .max_total_detections = served.attr("max_total").toInt(),
          .soft_nms_sigma = number("soft_nms_sigma"),
          .class_agnostic = flag("class_agnostic"),
          .change_coordinate_frame = flag("to_content"),
          .combined = !flag("prune"),
          .padding_score = number("absent_score")};
}

}  // namespace osprey
