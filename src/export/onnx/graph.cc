#include "export/onnx/graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "osprey/base/error.h"

// The ONNX library wants these defined as its package for CMake defines them, and the messages first.
#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>
//
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

namespace osprey {
namespace {

constexpr int64_t kIrVersion = 7;  // of the files that came with operators of version 13

/// ONNX's number of a type.
int64_t onnx_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return onnx::TensorProto::FLOAT;
    case at::kByte:
      return onnx::TensorProto::UINT8;
    case at::kChar:
      return onnx::TensorProto::INT8;
    case at::kInt:
      return onnx::TensorProto::INT32;
    case at::kLong:
      return onnx::TensorProto::INT64;
    case at::kBool:
      return onnx::TensorProto::BOOL;
    case at::kDouble:
      return onnx::TensorProto::DOUBLE;
    default:
      throw ConfigError(fmt::format("a tensor of type {}", c10::toString(type)));
  }
}

void set(onnx::AttributeProto& into, const OnnxGraph::Attribute& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    into.set_type(onnx::AttributeProto::INT);
    into.set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    into.set_type(onnx::AttributeProto::FLOAT);
    into.set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<const char*>(&value)) {
    into.set_type(onnx::AttributeProto::STRING);
    into.set_s(*text);
  } else {
    const auto& integers = std::get<std::vector<int64_t>>(value);
    into.set_type(onnx::AttributeProto::INTS);
    into.mutable_ints()->Assign(integers.begin(), integers.end());
  }
}

void describe(onnx::ValueInfoProto& into, const char* name, at::ScalarType type,
              const std::vector<OnnxGraph::Dimension>& shape) {
  into.set_name(name);
  onnx::TypeProto::Tensor& tensor = *into.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int>(onnx_type(type)));
  onnx::TensorShapeProto& dimensions = *tensor.mutable_shape();
  for (const OnnxGraph::Dimension& dimension : shape) {
    if (const auto* length = std::get_if<int64_t>(&dimension))
      dimensions.add_dim()->set_dim_value(*length);
    else
      dimensions.add_dim()->set_dim_param(std::get<const char*>(dimension));
  }
}

}  // namespace

OnnxGraph::OnnxGraph(const char* name) : model_(std::make_unique<onnx::ModelProto>()) {
  model_->set_ir_version(kIrVersion);
  model_->set_producer_name("Osprey");
  model_->set_producer_version(OSPREY_VERSION);
  model_->add_opset_import()->set_version(kOnnxOpset);
  model_->mutable_graph()->set_name(name);
}

OnnxGraph::~OnnxGraph() = default;

std::string OnnxGraph::file() const {
  if (model_->ByteSizeLong() > std::numeric_limits<int32_t>::max()) throw ConfigError("more than 2 GiB of weights");
  try {
    onnx::ModelProto with_shapes = *model_;
    onnx::checker::check_model(with_shapes);
    onnx::shape_inference::InferShapes(with_shapes, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict_mode=*/1));
  } catch (const std::runtime_error& error) {
    TORCH_CHECK(false, "the ONNX model is not a valid one: ", error.what());
  }
  return model_->SerializeAsString();
}

OnnxValue OnnxGraph::input(const char* name, at::ScalarType type, const std::vector<Dimension>& shape) {
  describe(*model_->mutable_graph()->add_input(), name, type, shape);
  return name;
}

void OnnxGraph::output(const char* name, const OnnxValue& value, at::ScalarType type,
                       const std::vector<Dimension>& shape) {
  onnx::GraphProto& graph = *model_->mutable_graph();
  add("Identity", {value});
  graph.mutable_node(graph.node_size() - 1)->set_output(0, name);
  describe(*graph.add_output(), name, type, shape);
}

OnnxValue OnnxGraph::constant(const at::Tensor& value) {
  OnnxValue& name = tensors_[{value.const_data_ptr(), value.sizes().vec(), value.strides().vec(), value.scalar_type()}];
  if (!name.empty()) return name;
  kept_.push_back(value);
  onnx::GraphProto& graph = *model_->mutable_graph();
  onnx::TensorProto& tensor = *graph.add_initializer();
  name = fmt::format("constant_{}", graph.initializer_size());
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int>(onnx_type(value.scalar_type())));
  tensor.mutable_dims()->Assign(value.sizes().begin(), value.sizes().end());
  const at::Tensor plain = value.to(at::kCPU).contiguous();
  tensor.set_raw_data(plain.const_data_ptr(), plain.nbytes());
  return name;
}

OnnxValue OnnxGraph::integers(const std::vector<int64_t>& values) {
  OnnxValue& name = small_[fmt::format("{}", values)];
  if (name.empty()) name = constant(at::tensor(values, at::kLong));
  return name;
}

OnnxValue OnnxGraph::integer(int64_t value) {
  OnnxValue& name = small_[fmt::format("{}", value)];
  if (name.empty()) name = constant(at::scalar_tensor(value, at::kLong));
  return name;
}

OnnxValue OnnxGraph::number(double value, at::ScalarType type) {
  OnnxValue& name = small_[fmt::format("{} of type {}", value, static_cast<int>(type))];
  if (name.empty()) name = constant(at::scalar_tensor(value, type));
  return name;
}

std::vector<OnnxValue> OnnxGraph::add(const char* operation, size_t count, const std::vector<OnnxValue>& inputs,
                                      const Attributes& attributes) {
  onnx::GraphProto& graph = *model_->mutable_graph();
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(operation);
  node.set_name(fmt::format("{}_{}", operation, graph.node_size()));
  for (const OnnxValue& input : inputs) node.add_input(input);
  for (size_t i = 0; i < count; ++i) node.add_output(i == 0 ? node.name() : fmt::format("{}_{}", node.name(), i));
  for (const auto& [name, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    set(attribute, value);
  }
  return {node.output().begin(), node.output().end()};
}

OnnxValue OnnxGraph::add(const char* operation, const std::vector<OnnxValue>& inputs, const Attributes& attributes) {
  return add(operation, 1, inputs, attributes).front();
}

OnnxValue OnnxGraph::size(const OnnxValue& x, int64_t axis) { return select(add("Shape", {x}), 0, axis); }

OnnxValue OnnxGraph::cast(const OnnxValue& x, at::ScalarType type) {
  return add("Cast", {x}, {{"to", onnx_type(type)}});
}

OnnxValue OnnxGraph::reshape(const OnnxValue& x, const std::vector<int64_t>& shape) {
  return add("Reshape", {x, integers(shape)});
}

OnnxValue OnnxGraph::unsqueeze(const OnnxValue& x, int64_t axis) { return add("Unsqueeze", {x, integers({axis})}); }

OnnxValue OnnxGraph::slice(const OnnxValue& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return add("Slice", {x, integers({begin}), integers({end}), integers({axis}), integers({step})});
}

OnnxValue OnnxGraph::select(const OnnxValue& x, int64_t axis, int64_t index) {
  return add("Gather", {x, integer(index)}, {{"axis", axis}});
}

OnnxValue OnnxGraph::concat(const std::vector<OnnxValue>& parts, int64_t axis) {
  return add("Concat", parts, {{"axis", axis}});
}

}  // namespace osprey
