#include "export/cpu_convolutions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/runtime/interpreter.h>

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Sizes = std::vector<int64_t>;

thread_local std::vector<Sizes>* inputs_seen = nullptr;

std::unique_ptr<at::ObserverContext> note_input(const at::RecordFunction& function) {
  if (inputs_seen == nullptr || std::string_view(function.name()) != "aten::_convolution") return nullptr;
  // Called by the interpreter, an operation has its arguments at the end of a stack.
  const size_t count = function.operator_schema()->arguments().size();
  inputs_seen->push_back(function.inputs().slice(function.inputs().size() - count)[0].toTensor().sizes().vec());
  return nullptr;
}

/// Notes the input of every convolution of this thread as long as it lives.
class InputWatch {
 public:
  explicit InputWatch(std::vector<Sizes>& seen)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(note_input).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    inputs_seen = &seen;
  }
  ~InputWatch() {
    at::removeCallback(handle_);
    inputs_seen = nullptr;
  }
  InputWatch(const InputWatch&) = delete;
  InputWatch& operator=(const InputWatch&) = delete;

 private:
  at::CallbackHandle handle_;
};

/// Sizes of the inputs of all convolutions of a graph, in their order.
std::vector<Sizes> convolution_inputs(Graph& graph, torch::jit::Stack arguments) {
  std::vector<Sizes> result;
  const InputWatch watch(result);
  torch::jit::InterpreterState(torch::jit::Code(graph.copy(), "network")).run(arguments);
  return result;
}

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

/// What the kernel can do to a value before it is written.
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

/// Puts the faster operation in the place of a convolution and of the activation that alone reads it.
void replace(Graph& graph, Node* convolution, const Sizes& input_size) {
  const auto weights = torch::jit::toIValue(convolution->input(1));
  const auto stride = constant_sizes(convolution->input(3)), padding = constant_sizes(convolution->input(4)),
             dilation = constant_sizes(convolution->input(5));
  const auto transposed = torch::jit::constant_as<bool>(convolution->input(6));
  const auto groups = torch::jit::constant_as<int64_t>(convolution->input(8));
  if (!weights || !weights->isTensor() || weights->toTensor().scalar_type() != at::kFloat || !stride || !padding ||
      !dilation || !transposed || *transposed || !groups)
    return;
  const torch::jit::WithInsertPoint before(convolution);
  Node* const packed = graph.insertNode(graph.create(c10::prim::ConstantMKLDNNTensor));
  packed->t_(c10::attr::value, at::mkldnn_reorder_conv2d_weight(weights->toTensor().to_mkldnn(), *padding, *stride,
                                                                *dilation, *groups, input_size));
  Node* last = convolution;
  Fused activation;
  if (const auto& uses = convolution->output()->uses(); uses.size() == 1)
    if (const auto found = fused(*uses[0].user)) {
      activation = *found;
      last = uses[0].user;
    }
  const auto scalars = c10::OptionalType::create(c10::NumberType::get());
  Value* const numbers = graph.insertNode(graph.createList(scalars, activation.numbers))->output();
  Node* const operation = graph.insertNode(
      graph.create(c10::Symbol::fromQualString("mkldnn::_convolution_pointwise"),
                   {convolution->input(0), packed->output(), convolution->input(2), graph.insertConstant(*padding),
                    graph.insertConstant(*stride), graph.insertConstant(*dilation), graph.insertConstant(*groups),
                    graph.insertConstant(activation.name), numbers, graph.insertConstant("")}));
  last->output()->replaceAllUsesWith(operation->output());
}

}  // namespace

void prepare_for_cpu(const torch::jit::Module& network, const at::Tensor& images) {
  if (!at::globalContext().hasMKLDNN()) return;
  const at::NoGradGuard no_gradients;
  const std::shared_ptr<Graph> graph = network.get_method("forward").graph();
  const at::Tensor shapes = at::tensor({images.size(2), images.size(3)}, at::kLong).repeat({images.size(0), 1});
  const std::vector<Node*> convolutions = convolutions_of(*graph);
  const std::vector<Sizes> inputs = convolution_inputs(*graph, {network._ivalue(), images, shapes});
  if (inputs.size() != convolutions.size()) return;  // not a graph of ours
  for (size_t i = 0; i < convolutions.size(); ++i) replace(*graph, convolutions[i], inputs[i]);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace osprey
