#include "export/quantization.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "export/normalization.h"
#include "export/traced_network.h"
#include "osprey/base/error.h"
#include "osprey/nn/fake_quantize.h"

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Values = std::unordered_set<const Value*>;

bool is_one_of(const Node& node, const std::set<c10::Symbol>& kinds) { return kinds.contains(node.kind()); }

bool convolves(const Node& node) { return node.kind() == c10::aten::_convolution; }

bool rounds(const Node& node) {
  return is_one_of(node, {c10::aten::fake_quantize_per_tensor_affine, c10::aten::fake_quantize_per_channel_affine});
}

/// Whether it gives some of the values that it reads, and zeros.
bool only_moves(const Node& node) {
  return is_one_of(node, {c10::aten::max_pool2d, c10::aten::upsample_nearest2d, c10::aten::constant_pad_nd,
                          c10::aten::to, c10::aten::contiguous, c10::aten::clone, c10::aten::detach, c10::aten::slice,
                          c10::aten::narrow, c10::aten::permute, c10::aten::reshape, c10::aten::view,
                          c10::aten::flatten, c10::aten::unsqueeze, c10::aten::squeeze});
}

bool clamps(const Node& node) {
  return is_one_of(
      node, {c10::aten::relu, c10::aten::hardtanh, c10::aten::clamp, c10::aten::clamp_min, c10::aten::clamp_max});
}

bool gives_floats(const Node& node) {
  if (!node.kind().is_aten() || node.outputs().size() != 1) return false;
  const auto type = node.output()->type()->cast<c10::TensorType>();
  return type != nullptr && type->scalarType() == at::kFloat;
}

/// An operation in the place of another, with the same result type.
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

/// The values of a network that are to be rounded.
class RoundedValues {
 public:
  explicit RoundedValues(Graph& graph) {
    find_behind_convolutions(graph);
    find_before_convolutions(graph);
    for (Node* node : graph.nodes())
      if (computes(*node) && !is_left_to_its_reader(*node->output())) values_.push_back(node->output());
  }

  /// What the first convolutions read.
  std::vector<Value*> pictures(Graph& graph) const {
    std::vector<Value*> result;
    for (Node* node : graph.nodes()) {
      if (!convolves(*node) || behind_.contains(node->input(0))) continue;
      Value* picture = node->input(0);
      while (only_moves(*picture->node())) picture = picture->node()->input(0);
      if (std::ranges::count(result, picture) == 0 && !rounds(*picture->node())) result.push_back(picture);
    }
    return result;
  }
  const std::vector<Value*>& all() const { return values_; }

 private:
  void find_behind_convolutions(Graph& graph) {
    for (const Node* node : graph.nodes())
      if (convolves(*node) ||
          std::ranges::any_of(node->inputs(), [&](const Value* input) { return behind_.contains(input); }))
        behind_.insert(node->outputs().begin(), node->outputs().end());
  }

  void find_before_convolutions(Graph& graph) {
    for (const Node* node : graph.nodes().reverse()) {
      if (convolves(*node))
        before_.insert(node->input(0));
      else if (std::ranges::any_of(node->outputs(), [&](const Value* output) { return before_.contains(output); }))
        before_.insert(node->inputs().begin(), node->inputs().end());
    }
  }

  bool computes(const Node& node) const {
    return gives_floats(node) && !only_moves(node) && !rounds(node) && behind_.contains(node.output()) &&
           (convolves(node) || before_.contains(node.output()));
  }

  /// Whether one operation alone reads a value, which limits or rounds it.
  bool is_left_to_its_reader(const Value& value) const {
    if (value.uses().size() != 1) return false;
    const Node& reader = *value.uses()[0].user;
    return rounds(reader) || (clamps(reader) && computes(reader));
  }

  Values behind_, before_;  // the convolutions
  std::vector<Value*> values_;
};

std::vector<Value*> rounded_values(Graph& graph, bool with_picture) {
  const RoundedValues values(graph);
  std::vector<Value*> result = with_picture ? values.pictures(graph) : std::vector<Value*>();
  result.insert(result.end(), values.all().begin(), values.all().end());
  return result;
}

/// Puts what it made at the place of a value behind it.
template <class Make>
void replace_behind(Graph& graph, Value* value, Make make) {
  Node* const maker = value->node();
  const torch::jit::WithInsertPoint behind(maker->kind() == c10::prim::Param ? *graph.nodes().begin() : maker->next());
  Value* const made = make();
  value->replaceAllUsesAfterNodeWith(made->node(), made);
}

void round_map(Graph& graph, Value* value, const nn::AffineNumbers& numbers) {
  replace_behind(graph, value, [&] {
    return insert(graph, "aten::fake_quantize_per_tensor_affine",
                  {value, graph.insertConstant(numbers.scale), graph.insertConstant(numbers.zero),
                   graph.insertConstant(numbers.first), graph.insertConstant(numbers.last)},
                  value);
  });
}

void round_weights(Graph& graph, Node* convolution) {
  constexpr int64_t kLargest = 127;
  const auto constant = torch::jit::toIValue(convolution->input(1));
  if (!constant) return;
  const at::Tensor weights = constant->toTensor(), scales = nn::scales_of_channels(weights.abs().flatten(1).amax(1));
  const torch::jit::WithInsertPoint before(convolution);
  Value* const rounded =
      insert(graph, "aten::fake_quantize_per_channel_affine",
             {convolution->input(1), graph.insertConstant(scales), graph.insertConstant(at::zeros_like(scales)),
              graph.insertConstant(int64_t{0}), graph.insertConstant(-kLargest), graph.insertConstant(kLargest)},
             convolution->input(1));
  convolution->replaceInput(1, rounded);
}

std::shared_ptr<Graph> prepared(Graph& network) {
  std::shared_ptr<Graph> graph = pure(network);
  write_out_activations(*graph);
  return graph;
}

}  // namespace

Calibrator::Calibrator(models::DetectionModel& model, const Batch& example) : model_(model) {
  const at::NoGradGuard no_gradients;
  const auto network = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    models::ModelInput input;
    input.images = inputs.at(0).toTensor();
    const models::Candidates found = model.candidates(model.predict(input));
    return {c10::ivalue::Tuple::create({found.boxes, found.scores})};
  };
  const at::Tensor images = model.preprocess(example).images;
  const auto graph = prepared(*traced_network(model, {images}, network));
  if (std::ranges::any_of(graph->nodes(),
                          [](const Node* node) { return rounds(*node) && torch::jit::toIValue(node->input(0)); }))
    throw ConfigError("the network was trained for 8 bits, and is rounded by the ranges found there");

  result_.rounds_picture = !pixel_of_zero(normalization_of(model, {images.size(2), images.size(3)}));
  const std::vector<Value*> values = rounded_values(*graph, result_.rounds_picture);
  result_.ranges.resize(values.size());
  const torch::jit::WithInsertPoint at_end(graph->return_node());
  for (Value* value : values)
    for (const char* extreme : {"aten::min", "aten::max"})
      graph->registerOutput(graph->insertNode(graph->create(c10::Symbol::fromQualString(extreme), {value}))->output());
  code_ = std::make_unique<torch::jit::Code>(graph, "network");
}

Calibrator::~Calibrator() = default;

void Calibrator::show(const Batch& picture) {
  const at::NoGradGuard no_gradients;
  torch::jit::Stack stack{model_.preprocess(picture).images};
  torch::jit::InterpreterState(*code_).run(stack);
  for (size_t i = 0; i < result_.ranges.size(); ++i) {
    ValueRange& range = result_.ranges[i];
    range.least = std::min(range.least, stack.at(1 + 2 * i).toTensor().item<float>());
    range.largest = std::max(range.largest, stack.at(2 + 2 * i).toTensor().item<float>());
  }
}

void quantize(std::shared_ptr<Graph>& network, const Calibration& calibration) {
  const at::NoGradGuard no_gradients;
  network = prepared(*network);
  Graph& graph = *network;
  const std::vector<Value*> values = rounded_values(graph, calibration.rounds_picture);
  TORCH_CHECK(values.size() == calibration.ranges.size(), "another network than the calibrated one");
  for (size_t i = 0; i < values.size(); ++i) {
    // What a sigmoid gives lies between 0 and 1 whatever it reads; runtimes for 8 bits have these numbers for it.
    constexpr nn::AffineNumbers kOfSigmoid{1. / 256, 0, 0, 255};
    const auto& [least, largest] = calibration.ranges[i];
    const bool is_sigmoid = values[i]->node()->kind() == c10::aten::sigmoid;
    round_map(graph, values[i], is_sigmoid ? kOfSigmoid : nn::numbers_of_range(least, largest));
  }
  for (Node* node : graph.nodes())
    if (convolves(*node)) round_weights(graph, node);
}

}  // namespace osprey
