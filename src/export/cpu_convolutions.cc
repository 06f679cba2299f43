#include "export/cpu_convolutions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <map>

#include "export/operation_inputs.h"
#include "osprey/kernels/sliding_convolution.h"

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Sizes = std::vector<int64_t>;

std::vector<Node*> convolutions_of(Graph& graph) {
  std::vector<Node*> result;
  for (Node* node : graph.nodes())
    if (node->kind() == c10::aten::_convolution) result.push_back(node);
  return result;
}

/// A list of whole numbers, where it is a constant.
std::optional<Sizes> constant_sizes(const Value* value) {
  if (const auto constant = torch::jit::toIValue(value)) return constant->toIntVector();
  if (value->node()->kind() != c10::prim::ListConstruct) return std::nullopt;
  Sizes result;
  for (const Value* element : value->node()->inputs()) {
    const auto constant = torch::jit::constant_as<int64_t>(element);
    if (!constant) return std::nullopt;
    result.push_back(*constant);
  }
  return result;
}

/// A convolution of a graph by weights that are a constant.
struct Convolution {
  Node* node;
  at::Tensor weights;  ///< float32
  Sizes stride, padding, dilation;
  int64_t groups = 1;
  Node* activation = nullptr;  ///< what alone reads its result

  static std::optional<Convolution> of(Node* node) {
    const auto weights = torch::jit::toIValue(node->input(1));
    const auto stride = constant_sizes(node->input(3)), padding = constant_sizes(node->input(4)),
               dilation = constant_sizes(node->input(5));
    const auto transposed = torch::jit::constant_as<bool>(node->input(6));
    const auto groups = torch::jit::constant_as<int64_t>(node->input(8));
    if (!weights || !weights->isTensor() || weights->toTensor().scalar_type() != at::kFloat || !stride || !padding ||
        !dilation || !transposed || *transposed || !groups)
      return std::nullopt;
    const auto& uses = node->output()->uses();
    return Convolution{
        node, weights->toTensor(), *stride, *padding, *dilation, *groups, uses.size() == 1 ? uses[0].user : nullptr};
  }

  Value* map() const { return node->input(0); }
  Value* biases() const { return node->input(2); }
};

/// The limits of an activation that is a clamp.
std::optional<kernels::Epilogue> clamp_of(const Node& activation) {
  if (activation.kind() == c10::aten::relu) return kernels::Epilogue{.low = 0};
  if (activation.kind() != c10::aten::hardtanh) return std::nullopt;
  const auto low = torch::jit::toIValue(activation.inputs()[1]), high = torch::jit::toIValue(activation.inputs()[2]);
  if (!low || !high) return std::nullopt;
  return kernels::Epilogue{.low = low->toScalar().toFloat(), .high = high->toScalar().toFloat()};
}

/// Weights for tiles. Maps of several sizes may share them.
class PackedWeights {
 public:
  at::Tensor of(const at::Tensor& weights, const Sizes& map) {
    const at::Tensor packed = kernels::packed_for_winograd(at::empty(map, at::MemoryFormat::ChannelsLast), weights);
    return known_.try_emplace({weights.const_data_ptr(), packed.numel()}, packed).first->second;
  }

 private:
  std::map<std::pair<const void*, int64_t>, at::Tensor> known_;  ///< by the weights' memory and how many numbers
};

/// Puts one of 3 x 3 that tiles of fewer products can make in the place of the convolution.
///
/// packed   what has been made of weights so far
/// returns  whether it can
bool replace_by_tiles(Graph& graph, const Convolution& convolution, const MapInput& input, PackedWeights& packed) {
  const at::Tensor& weights = convolution.weights;
  const auto biases = torch::jit::toIValue(convolution.biases());
  if (!input.channels_last || convolution.groups != 1 || weights.size(2) != 3 || weights.size(3) != 3 ||
      convolution.stride != Sizes{1, 1} || convolution.padding != Sizes{1, 1} || convolution.dilation != Sizes{1, 1} ||
      !biases)
    return false;
  const at::Tensor factors = packed.of(weights, input.sizes);
  if (factors.numel() == 0) return false;
  Node* last = convolution.node;
  kernels::Epilogue limits;
  if (convolution.activation != nullptr)
    if (const auto clamp = clamp_of(*convolution.activation)) {
      limits = *clamp;
      last = convolution.activation;
    }
  const torch::jit::WithInsertPoint before(convolution.node);
  Node* const operation = graph.insertNode(graph.create(
      c10::Symbol::fromQualString("osprey::packed_winograd_convolution"),
      {convolution.map(), graph.insertConstant(factors),
       graph.insertConstant(biases->isTensor() ? biases->toTensor() : at::zeros({weights.size(0)})),
       graph.insertConstant(static_cast<double>(limits.low)), graph.insertConstant(static_cast<double>(limits.high))}));
  last->output()->replaceAllUsesWith(operation->output());
  return true;
}

/// What oneDNN can do to a value before it is written.
struct Fused {
  const char* name = "none";
  std::vector<Value*> numbers = {};
};

std::optional<Fused> fused(Node& activation) {
  switch (activation.kind()) {
    case c10::aten::relu:
      return Fused{"relu"};
    case c10::aten::hardtanh:
      return Fused{"hardtanh", {activation.inputs()[1], activation.inputs()[2]}};
    case c10::aten::silu:
      return Fused{"swish"};
    case c10::aten::hardswish:
      return Fused{"hardswish"};
    default:
      return std::nullopt;
  }
}

/// Puts oneDNN's own, by weights in the layout of its kernels, in the place of the convolution and of the activation.
void replace_by_onednn(Graph& graph, const Convolution& convolution, const MapInput& input) {
  const torch::jit::WithInsertPoint before(convolution.node);
  Node* const packed = graph.insertNode(graph.create(c10::prim::ConstantMKLDNNTensor));
  packed->t_(c10::attr::value,
             at::mkldnn_reorder_conv2d_weight(convolution.weights.to_mkldnn(), convolution.padding, convolution.stride,
                                              convolution.dilation, convolution.groups, input.sizes));
  Node* last = convolution.node;
  Fused activation;
  if (convolution.activation != nullptr)
    if (const auto found = fused(*convolution.activation)) {
      activation = *found;
      last = convolution.activation;
    }
  const auto scalars = c10::OptionalType::create(c10::NumberType::get());
  Value* const numbers = graph.insertNode(graph.createList(scalars, activation.numbers))->output();
  Node* const operation = graph.insertNode(
      graph.create(c10::Symbol::fromQualString("mkldnn::_convolution_pointwise"),
                   {convolution.map(), packed->output(), convolution.biases(),
                    graph.insertConstant(convolution.padding), graph.insertConstant(convolution.stride),
                    graph.insertConstant(convolution.dilation), graph.insertConstant(convolution.groups),
                    graph.insertConstant(activation.name), numbers, graph.insertConstant("")}));
  last->output()->replaceAllUsesWith(operation->output());
}

/// Puts the fastest operation that there is in the place of a convolution and of the activation that alone reads it.
void replace(Graph& graph, Node* node, const MapInput& input, PackedWeights& packed) {
  const auto convolution = Convolution::of(node);
  if (!convolution || replace_by_tiles(graph, *convolution, input, packed)) return;
  if (at::globalContext().hasMKLDNN()) replace_by_onednn(graph, *convolution, input);
}

}  // namespace

void prepare_for_cpu(const torch::jit::Module& network, const at::Tensor& images) {
  const at::NoGradGuard no_gradients;
  const std::shared_ptr<Graph> graph = network.get_method("forward").graph();
  const at::Tensor shapes = at::tensor({images.size(2), images.size(3)}, at::kLong).repeat({images.size(0), 1});
  const std::vector<Node*> convolutions = convolutions_of(*graph);
  const std::vector<MapInput> inputs = inputs_of(*graph, "aten::_convolution", {network._ivalue(), images, shapes});
  if (inputs.size() != convolutions.size()) return;  // not a graph of ours
  PackedWeights packed;
  for (size_t i = 0; i < convolutions.size(); ++i) replace(*graph, convolutions[i], inputs[i], packed);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace osprey
