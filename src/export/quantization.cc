#include "export/quantization.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "export/calibration.h"
#include "export/rounded_values.h"
#include "export/traced_network.h"
#include "osprey/nn/fake_quantize.h"

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// The result of a new operation, of the type and shape of `like`.
Value* insert(Graph& graph, const char* name, const std::vector<Value*>& inputs, const Value* like) {
  Node* const node = graph.insertNode(graph.create(c10::Symbol::fromQualString(name), inputs));
  node->output()->setType(like->type());
  return node->output();
}

/// Writes activations of several steps, which runtimes for 8 bits round between, as these steps.
void write_out_activations(Graph& graph) {
  for (auto place = graph.nodes().begin(); place != graph.nodes().end(); ++place) {
    Node* const node = *place;
    const bool swish = node->kind() == c10::aten::silu, hard_gate = node->kind() == c10::aten::hardsigmoid;
    if (!swish && !hard_gate) continue;
    const torch::jit::WithInsertPoint before(node);
    Value *const x = node->input(0), *const old = node->output();
    const auto number = [&](double value) { return graph.insertConstant(value); };
    Value* replaced = nullptr;
    if (swish) {
      replaced = insert(graph, "aten::mul", {x, insert(graph, "aten::sigmoid", {x}, old)}, old);
    } else {
      Value* const sum = insert(graph, "aten::add", {x, number(3), graph.insertConstant(int64_t{1})}, old);
      Value* const clamped = insert(graph, "aten::hardtanh", {sum, number(0), number(6)}, old);
      replaced = insert(graph, "aten::mul", {clamped, number(1. / 6)}, old);
    }
    old->replaceAllUsesWith(replaced);
  }
  torch::jit::EliminateDeadCode(graph.block());
}

/// Rounds a network's values one after the other.
class Quantization {
 public:
  Quantization(Graph& graph, const Calibration& calibration)
      : graph_(graph), pixel_step_(calibration.pixel_step.value_or(0)) {
    const auto [values, alike] = rounded_values(graph, !calibration.pixel_step);
    TORCH_CHECK(values.size() == calibration.ranges.size(), "another network than the calibrated one");
    for (size_t i = 0; i < values.size(); ++i) ranges_[values[i]] = calibration.ranges[i];
    while (widened(alike)) continue;
  }

  void run() {
    const std::vector<Node*> nodes(graph_.nodes().begin(), graph_.nodes().end());
    for (Value* input : graph_.inputs()) round(input);
    for (Node* node : nodes) {
      if (convolves(*node)) steps_of_weights_[node] = round_weights(node);
      for (Value* output : node->outputs()) round(output);
    }
  }

 private:
  /// Gives values that are alike the widest of their ranges.
  /// returns  whether that changed any, which may be alike to others
  bool widened(const std::vector<std::vector<const Value*>>& alike) {
    bool changed = false;
    for (const std::vector<const Value*>& group : alike) {
      ValueRange widest;
      for (const Value* value : group) {
        widest.least = std::min(widest.least, ranges_.at(value).least);
        widest.largest = std::max(widest.largest, ranges_.at(value).largest);
      }
      for (const Value* value : group) changed |= std::exchange(ranges_.at(value), widest) != widest;
    }
    return changed;
  }

  /// What lies between two numbers of a value that was rounded, of the picture, or of a constant; 0 where it is not
  /// known.
  double step_of(const Value* value) const {
    value = source(value);
    if (const auto constant = torch::jit::toIValue(value)) {
      if (!constant->isTensor() && !constant->isScalar()) return 0;
      const at::Tensor number = constant->isTensor() ? constant->toTensor() : at::scalar_tensor(constant->toScalar());
      return number.numel() > 0 ? number.abs().max().item<double>() / nn::kLargestWeight : 0;
    }
    if (value->node()->kind() != c10::aten::fake_quantize_per_tensor_affine) return pixel_step_;
    return torch::jit::toIValue(value->node()->input(1))->toDouble();
  }

  /// Rounds the weights of a convolution, whose map has been rounded.
  /// returns  the largest of their steps
  double round_weights(Node* convolution) {
    constexpr double kMostBias = 1 << 30;  // steps of map times weight: half of what 32 bits hold, for the sum with it
    const at::Tensor weights = torch::jit::toIValue(convolution->input(1)).value().toTensor();
    at::Tensor scales = nn::scales_of_channels(weights.abs().flatten(1).amax(1));
    const auto biases = torch::jit::toIValue(convolution->input(2)).value();
    if (const double of_map = step_of(convolution->input(0)); of_map > 0 && biases.isTensor())
      scales = at::maximum(scales, biases.toTensor().abs().to(at::kFloat) / (of_map * kMostBias));
    const torch::jit::WithInsertPoint before(convolution);
    Value* const rounded =
        insert(graph_, "aten::fake_quantize_per_channel_affine",
               {convolution->input(1), graph_.insertConstant(scales), graph_.insertConstant(at::zeros_like(scales)),
                graph_.insertConstant(int64_t{0}), graph_.insertConstant(-nn::kLargestWeight),
                graph_.insertConstant(nn::kLargestWeight)},
               convolution->input(1));
    convolution->replaceInput(1, rounded);
    return scales.max().item<double>();
  }

  /// What lies between two numbers of the results of an operation at the least: runtimes multiply what they compute
  /// by its steps over those of the result, and XNNPACK refuses a factor of 256 and more.
  double least_step(const Node& node) const {
    constexpr double kLargestFactor = 128;
    if (clamps(node)) return least_step(*node.input(0)->node());
    double step = 0;
    if (const auto found = steps_of_weights_.find(&node); found != steps_of_weights_.end())
      step = found->second * step_of(node.input(0));
    else if (node.kind() == c10::aten::mul)
      step = step_of(node.input(0)) * step_of(node.input(1));
    else if (node.kind() == c10::aten::add || node.kind() == c10::aten::sub)
      step = std::max(step_of(node.input(0)), step_of(node.input(1)));
    else if (node.inputs().size() > 0 && gives_floats(*node.input(0)->node()))
      step = step_of(node.input(0));
    return step / kLargestFactor;
  }

  void round(Value* value) {
    const auto found = ranges_.find(value);
    if (found == ranges_.end()) return;
    const Node& maker = *value->node();
    // What a sigmoid gives lies between 0 and 1 whatever it reads; runtimes for 8 bits have these numbers for it.
    nn::AffineNumbers numbers{.scale = 1. / 256, .zero = 0, .first = 0, .last = 255};
    if (maker.kind() != c10::aten::sigmoid) {
      auto [least, largest] = found->second;
      const auto narrowest = static_cast<float>(255 * least_step(maker));
      if (largest - least < narrowest) largest = least + narrowest;
      numbers = nn::numbers_of_range(least, largest);
    }
    const torch::jit::WithInsertPoint behind(maker.kind() == c10::prim::Param ? *graph_.nodes().begin()
                                                                              : value->node()->next());
    Value* const rounded = insert(graph_, "aten::fake_quantize_per_tensor_affine",
                                  {value, graph_.insertConstant(numbers.scale), graph_.insertConstant(numbers.zero),
                                   graph_.insertConstant(numbers.first), graph_.insertConstant(numbers.last)},
                                  value);
    value->replaceAllUsesAfterNodeWith(rounded->node(), rounded);
  }

  Graph& graph_;
  double pixel_step_;
  std::unordered_map<const Value*, ValueRange> ranges_;
  std::unordered_map<const Node*, double> steps_of_weights_;  ///< the largest of each convolution
};

}  // namespace

std::shared_ptr<Graph> quantizable(Graph& network) {
  std::shared_ptr<Graph> graph = pure(network);
  write_out_activations(*graph);
  return graph;
}

std::shared_ptr<Graph> quantized(Graph& network, const Calibration& calibration) {
  const at::NoGradGuard no_gradients;
  std::shared_ptr<Graph> graph = quantizable(network);
  Quantization(*graph, calibration).run();
  return graph;
}

}  // namespace osprey
