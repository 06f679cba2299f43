#include "export/tflite/rounding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "export/shared_rules.h"
#include "osprey/base/error.h"
#include "osprey/nn/fake_quantize.h"

namespace osprey::tflite {
namespace {

/// How many of its first arguments an operation moves; 0 of those that compute.
size_t moved_arguments(BuiltinOperator kind, const OperatorT& made) {
  switch (kind) {
    case BuiltinOperator_PAD:
    case BuiltinOperator_MAX_POOL_2D:
    case BuiltinOperator_RESIZE_NEAREST_NEIGHBOR:
    case BuiltinOperator_GATHER:
    case BuiltinOperator_STRIDED_SLICE:
      return 1;
    case BuiltinOperator_CONCATENATION:
      return made.inputs.size();
    default:
      return 0;
  }
}

/// The numbers that stand for a value, where there are such; what only moves values moves them.
std::optional<Value> numbers_of(Graph& graph, const Value& value) {
  if (const auto known = graph.moved(value)) return known;
  const OperatorT* maker = graph.maker(value);
  if (maker == nullptr) return std::nullopt;
  if (graph.kind(*maker) == BuiltinOperator_DEQUANTIZE) return Value{maker->inputs[0], value.is_map};
  const size_t count = moved_arguments(graph.kind(*maker), *maker);
  if (count == 0) return std::nullopt;
  std::vector<Value> inputs;
  for (const int32_t input : maker->inputs) inputs.push_back({input, value.is_map});
  for (size_t i = 0; i < count; ++i) {
    const auto numbers = numbers_of(graph, inputs[i]);
    if (!numbers || (i > 0 && graph.steps(*numbers) != graph.steps(inputs[0]))) return std::nullopt;
    inputs[i] = *numbers;
  }
  const Value moved = graph.add(graph.kind(*maker), inputs, graph.shape(value), maker->builtin_options);
  graph.set_steps(moved, graph.type(inputs[0]), graph.steps(inputs[0]));
  graph.note_moved(value, moved);
  return moved;
}

/// Biases in steps of map times weights, as the format wants them.
Value biases_in_numbers(Graph& graph, const at::Tensor& biases, const Steps& of_map, const Steps& of_weights) {
  Steps steps;
  for (const float scale : of_weights.scales) steps.scales.push_back(of_map.scales[0] * scale);
  const at::Tensor numbers = (biases.to(at::kDouble) / at::tensor(steps.scales).to(at::kDouble)).round();
  if (numbers.abs().max().item<double>() > std::numeric_limits<int32_t>::max())
    throw ConfigError("a bias is so large beside maps and weights that 32 bits do not hold it in their steps");
  return graph.constant(numbers.to(at::kInt), steps);
}

/// A constant of one element as a number, the largest of those, which stands for it exactly; nothing for others.
std::optional<Value> exact_number(Graph& graph, const Value& value) {
  if (!graph.is_constant(value) || graph.elements(value.tensor).numel() != 1) return std::nullopt;
  const at::Tensor element = graph.elements(value.tensor);
  const auto step = std::max(std::abs(element.item<float>()) / nn::kLargestWeight, std::numeric_limits<float>::min());
  return graph.constant((element.sign() * nn::kLargestWeight).to(at::kChar), {.scales = {step}});
}

/// How many of its first arguments an operation reads as numbers, of those that can compute with such to give these;
/// 0 of others.
size_t arguments_as_numbers(BuiltinOperator kind, const Steps& result) {
  switch (kind) {
    case BuiltinOperator_CONV_2D:
    case BuiltinOperator_DEPTHWISE_CONV_2D:
    case BuiltinOperator_ADD:
    case BuiltinOperator_SUB:
    case BuiltinOperator_MUL:
      return 2;
    case BuiltinOperator_RELU:
    case BuiltinOperator_RELU6:
    case BuiltinOperator_HARD_SWISH:
    case BuiltinOperator_MEAN:
    case BuiltinOperator_AVERAGE_POOL_2D:
      return 1;
    case BuiltinOperator_LOGISTIC:  // the format has these steps for it and no others
      return result.scales[0] == 1.f / 256 && result.zero == -kSigned ? 1 : 0;
    default:
      return 0;
  }
}

/// Lets the operation that made a value compute with numbers and give numbers.
/// returns  whether it can
bool computes_with_numbers(Graph& graph, const Value& value, const Steps& steps) {
  OperatorT* maker = graph.maker(value);
  if (maker == nullptr) return false;
  const BuiltinOperator kind = graph.kind(*maker);
  const size_t count = arguments_as_numbers(kind, steps);
  if (count == 0) return false;
  std::vector<int32_t> inputs = maker->inputs;
  std::vector<Value> read;
  for (size_t i = 0; i < count; ++i) {
    const Value argument{inputs[i]};
    auto numbers = numbers_of(graph, argument);
    if (!numbers && graph.type_of_numbers() == TensorType_INT8) numbers = exact_number(graph, argument);
    if (!numbers || (kind == BuiltinOperator_AVERAGE_POOL_2D && graph.steps(*numbers) != steps)) return false;
    read.push_back(*numbers);
    inputs[i] = numbers->tensor;
  }
  if (kind == BuiltinOperator_CONV_2D || kind == BuiltinOperator_DEPTHWISE_CONV_2D)
    inputs[2] = biases_in_numbers(graph, graph.elements(inputs[2]), graph.steps(read[0]), graph.steps(read[1])).tensor;
  maker->inputs = inputs;
  graph.move_to_end(value);  // behind what moves its numbers
  graph.set_steps(value, graph.type_of_numbers(), steps);
  return true;
}

Value values_of(Graph& graph, const Value& numbers) {
  Value result = graph.add(BuiltinOperator_DEQUANTIZE, {numbers}, graph.shape(numbers));
  result.is_map = numbers.is_map;
  return result;
}

}  // namespace

/// x, scale, number of zero, first and last number. Constants are the weights.
Value rounded(const Operation& o) {
  Graph& graph = o.graph;
  Steps steps{.scales = {static_cast<float>(o.real(1))}, .zero = o.integer(2)};
  o.expect(4, "another last number than 255", 255);
  if (o.is_constant(0)) return values_of(graph, graph.constant(numbers_of_weights(o), steps));
  o.expect(3, "another first number than 0", 0);
  if (graph.type_of_numbers() == TensorType_INT8) steps.zero -= kSigned;
  const Value x = o.tensor(0);
  if (o.alone_reads(0) && computes_with_numbers(graph, x, steps)) return values_of(graph, x);
  const Value numbers = o.elementwise(BuiltinOperator_QUANTIZE);
  graph.set_steps(numbers, graph.type_of_numbers(), steps);
  return values_of(graph, numbers);
}

/// x, scales, numbers of zero, axis, first and last number. Constants alone, the weights.
Value rounded_by_channels(const Operation& o) {
  if (o.constant(2).toTensor().count_nonzero().item<int64_t>() != 0) throw o.refused("another number of zero than 0");
  const at::Tensor numbers = numbers_of_weights_by_channels(o),
                   scales = o.constant(1).toTensor().to(at::kFloat).contiguous();
  Steps steps{.axis = static_cast<int32_t>(o.axis(0, o.integer(3)))};
  steps.scales.assign(scales.const_data_ptr<float>(), scales.const_data_ptr<float>() + scales.numel());
  return values_of(o.graph, o.graph.constant(numbers, steps));
}

}  // namespace osprey::tflite
