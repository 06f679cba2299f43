#include "export/tflite/graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "export/tflite/finished_model.h"
#include "osprey/base/error.h"

namespace osprey::tflite {
namespace {

constexpr uint32_t kVersion = 3;  // of the format

TensorType type_of(const at::Tensor& value) {
  switch (value.scalar_type()) {
    case at::kFloat:
      return TensorType_FLOAT32;
    case at::kInt:
      return TensorType_INT32;
    case at::kByte:
      return TensorType_UINT8;
    case at::kChar:
      return TensorType_INT8;
    default:
      throw ConfigError(fmt::format("a tensor of type {}", c10::toString(value.scalar_type())));
  }
}

/// Where an operation says what activates its result; null where it cannot say so.
Activation* activation_of(BuiltinOptionsUnion& options) {
  if (auto* of_convolution = options.AsConv2DOptions()) return &of_convolution->fused_activation_function;
  if (auto* of_depthwise = options.AsDepthwiseConv2DOptions()) return &of_depthwise->fused_activation_function;
  if (auto* of_sum = options.AsAddOptions()) return &of_sum->fused_activation_function;
  return nullptr;
}

}  // namespace

Shape channels_last(const Shape& of_map) { return {of_map[0], of_map[2], of_map[3], of_map[1]}; }

Graph::Graph(const char* name) {
  model_.version = kVersion;
  model_.description = "Osprey " OSPREY_VERSION;
  model_.subgraphs.push_back(std::make_unique<SubGraphT>());
  subgraph().name = name;
  model_.buffers.push_back(std::make_unique<BufferT>());
}

std::string Graph::file() const {
  const ModelT written = finished(model_);
  size_t bytes = 0;
  for (const auto& buffer : written.buffers) bytes += buffer->data.size();
  if (bytes > std::numeric_limits<int32_t>::max() / 2) throw ConfigError("more than a GiB of weights");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Model::Pack(builder, &written), ModelIdentifier());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

uint32_t Graph::add_buffer(const void* bytes, size_t size) {
  auto buffer = std::make_unique<BufferT>();
  const auto* first = static_cast<const uint8_t*>(bytes);
  buffer->data.assign(first, first + size);
  model_.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(model_.buffers.size()) - 1;
}

void Graph::add_metadata(const char* name, const std::string& bytes) {
  auto entry = std::make_unique<MetadataT>();
  entry->name = name;
  entry->buffer = add_buffer(bytes.data(), bytes.size());
  model_.metadata.push_back(std::move(entry));
}

int32_t Graph::add_tensor(const Shape& shape, TensorType type, const std::string& name) {
  auto tensor = std::make_unique<TensorT>();
  tensor->shape.assign(shape.begin(), shape.end());
  tensor->type = type;
  tensor->name = name;
  subgraph().tensors.push_back(std::move(tensor));
  return static_cast<int32_t>(subgraph().tensors.size()) - 1;
}

Value Graph::input(const char* name, const Shape& shape) {
  const Value value{add_tensor(shape, TensorType_FLOAT32, name)};
  subgraph().inputs.push_back(value.tensor);
  return value;
}

void Graph::output(const char* name, const Value& value) {
  const std::vector<int32_t>& outputs = subgraph().outputs;
  const bool has_a_name = maker(value) == nullptr || std::ranges::count(outputs, value.tensor) > 0;
  const Shape lengths = shape(value);
  const Value own = has_a_name ? add(BuiltinOperator_RESHAPE, {value, integers(lengths)}, lengths) : value;
  subgraph().tensors[index(own)]->name = name;
  subgraph().outputs.push_back(own.tensor);
}

Value Graph::constant(const at::Tensor& value) {
  Value& known = known_[{value.const_data_ptr(), value.sizes().vec(), value.strides().vec(), value.scalar_type()}];
  if (known.tensor >= 0) return known;
  const at::Tensor plain = value.to(at::kCPU).contiguous();
  known.tensor = add_tensor(value.sizes().vec(), type_of(value), fmt::format("constant_{}", subgraph().tensors.size()));
  constants_[known.tensor] = value;
  subgraph().tensors[index(known)]->buffer = add_buffer(plain.const_data_ptr(), plain.nbytes());
  return known;
}

Value Graph::constant(const at::Tensor& numbers, const Steps& steps) {
  const Value result = constant(numbers);
  set_steps(result, type_of(numbers), steps);
  return result;
}

Value Graph::number(double value) { return constant(at::scalar_tensor(value, at::kFloat)); }

Value Graph::integers(const Shape& values) { return constant(at::tensor(values, at::kInt)); }

OperatorT& Graph::add_operator(BuiltinOperator operation, const char* custom, const std::vector<Value>& inputs,
                               const std::vector<int32_t>& outputs) {
  const auto [code, is_new] =
      codes_.try_emplace({operation, custom}, static_cast<uint32_t>(model_.operator_codes.size()));
  if (is_new) {
    auto described = std::make_unique<OperatorCodeT>();
    described->builtin_code = operation;
    described->deprecated_builtin_code = static_cast<int8_t>(operation);
    described->custom_code = custom;
    model_.operator_codes.push_back(std::move(described));
  }
  auto made = std::make_unique<OperatorT>();
  made->opcode_index = code->second;
  for (const Value& input : inputs) made->inputs.push_back(input.tensor);
  made->outputs = outputs;
  for (const int32_t output : outputs) makers_[output] = made.get();
  subgraph().operators.push_back(std::move(made));
  return *subgraph().operators.back();
}

Value Graph::add(BuiltinOperator operation, const std::vector<Value>& inputs, const Shape& shape,
                 const BuiltinOptionsUnion& options) {
  const Value result{add_tensor(shape, TensorType_FLOAT32,
                                fmt::format("{}_{}", EnumNameBuiltinOperator(operation), subgraph().operators.size())),
                     inputs.front().is_map};
  add_operator(operation, "", inputs, {result.tensor}).builtin_options = options;
  return result;
}

std::vector<Value> Graph::add_custom(const char* operation, const std::vector<Value>& inputs,
                                     const std::vector<Shape>& shapes, const std::vector<uint8_t>& options) {
  std::vector<Value> results;
  std::vector<int32_t> outputs;
  for (const Shape& shape : shapes) {
    outputs.push_back(add_tensor(shape, TensorType_FLOAT32, fmt::format("{}_{}", operation, results.size())));
    results.push_back({outputs.back()});
  }
  add_operator(BuiltinOperator_CUSTOM, operation, inputs, outputs).custom_options = options;
  return results;
}

bool Graph::activate(const Value& value, Activation activation) {
  OperatorT* made = maker(value);
  Activation* place = made == nullptr ? nullptr : activation_of(made->builtin_options);
  if (place == nullptr || *place != Activation_NONE) return false;
  *place = activation;
  return true;
}

OperatorT* Graph::maker(const Value& value) const {
  const auto found = makers_.find(value.tensor);
  return found == makers_.end() ? nullptr : found->second;
}

void Graph::move_to_end(const Value& value) {
  auto& operators = subgraph().operators;
  const auto place = std::find_if(operators.begin(), operators.end(),
                                  [made = maker(value)](const auto& one) { return one.get() == made; });
  std::rotate(place, place + 1, operators.end());
}

std::optional<Value> Graph::moved(const Value& value) const {
  const auto found = moved_.find(value.tensor);
  return found == moved_.end() ? std::nullopt : std::optional(found->second);
}

void Graph::set_steps(const Value& value, TensorType type, const Steps& steps) {
  TensorT& tensor = *subgraph().tensors[index(value)];
  tensor.type = type;
  tensor.quantization = std::make_unique<QuantizationT>();
  tensor.quantization->scale = steps.scales;
  tensor.quantization->zero_point.assign(steps.scales.size(), steps.zero);
  tensor.quantization->quantized_dimension = steps.axis;
}

Steps Graph::steps(const Value& value) const {
  const QuantizationT& described_so = *described(value).quantization;
  return {described_so.scale, described_so.zero_point.front(), described_so.quantized_dimension};
}

}  // namespace osprey::tflite
