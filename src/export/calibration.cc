#include "export/calibration.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "export/normalization.h"
#include "export/quantization.h"
#include "export/rounded_values.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

std::shared_ptr<Graph> network_of(models::DetectionModel& model, const std::array<int64_t, 2>& canvas) {
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    models::ModelInput input;
    input.images = inputs.at(0).toTensor();
    const models::Candidates found = model.candidates(model.predict(input));
    return {c10::ivalue::Tuple::create({found.boxes, found.scores})};
  };
  Batch example;
  example.images = at::zeros({1, 3, canvas[0], canvas[1]}, at::kByte);
  example.true_shapes = at::tensor({canvas[0], canvas[1]}, at::kLong).unsqueeze(0);
  return quantizable(*traced_network(model, {model.preprocess(example).images}, network));
}

/// Lets the network give the least and the largest number of a value, too.
void observe(Graph& graph, Value* value) {
  Node* const maker = value->node();
  const torch::jit::WithInsertPoint behind(maker->kind() == c10::prim::Param ? *graph.nodes().begin() : maker->next());
  // In the order of memory, which libtorch goes over many times as fast.
  const auto type = value->type()->expectRef<c10::TensorType>();
  Value* observed = value;
  if (type.dim() == 4)
    observed = graph
                   .insertNode(graph.create(c10::aten::permute,
                                            {value, graph.insertConstant(std::vector<int64_t>{0, 2, 3, 1})}))
                   ->output();
  Value *const of_all = graph.insertConstant(c10::IValue()), *const without_dimension = graph.insertConstant(false);
  Node* const extremes = graph.insertNode(
      graph.create(c10::Symbol::fromQualString("aten::aminmax"), {observed, of_all, without_dimension}, 2));
  for (Value* extreme : extremes->outputs()) graph.registerOutput(extreme);
}

std::shared_ptr<Graph> observed(std::shared_ptr<Graph> graph, Calibration& calibration) {
  const std::vector<Value*> values = rounded_values(*graph, !calibration.pixel_step).all;
  calibration.ranges.resize(values.size());
  for (Value* value : values) observe(*graph, value);
  return graph;
}

bool has_rounded_weights(Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node* node) { return rounds(*node) && torch::jit::toIValue(node->input(0)); });
}

}  // namespace

Calibrator::Calibrator(models::DetectionModel& model, const std::array<int64_t, 2>& canvas) : model_(model) {
  const at::NoGradGuard no_gradients;
  const nn::Normalization normalization = normalization_of(model, canvas);
  if (pixel_of_zero(normalization)) result_.pixel_step = normalization.scale[0];
  std::shared_ptr<Graph> graph = network_of(model, canvas);
  if (has_rounded_weights(*graph))
    throw ConfigError("the network was trained for 8 bits, and is rounded by the ranges found there");
  code_ = torch::jit::Code(observed(graph, result_), "network");
}

void Calibrator::show(const Batch& picture) {
  const at::NoGradGuard no_gradients;
  torch::jit::Stack stack{model_.preprocess(picture).images};
  torch::jit::InterpreterState(code_).run(stack);
  for (size_t i = 0; i < result_.ranges.size(); ++i) {
    ValueRange& range = result_.ranges[i];
    const float least = stack.at(1 + 2 * i).toTensor().item<float>(),
                largest = stack.at(2 + 2 * i).toTensor().item<float>();
    if (!std::isfinite(least) || !std::isfinite(largest))
      throw DataError("the network makes numbers of a picture that are not finite, so there is no range to round by");
    range.least = std::min(range.least, least);
    range.largest = std::max(range.largest, largest);
  }
}

}  // namespace osprey
