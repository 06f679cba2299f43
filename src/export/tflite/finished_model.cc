#include "export/tflite/finished_model.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace osprey::tflite {
namespace {

/// The first version of an operator that does what this one does.
/// source  TensorFlow's tensorflow/lite/tools/versioning/op_version.cc
int32_t version_of(BuiltinOperator kind, const OperatorT& made, const SubGraphT& graph) {
  const auto tensor = [&](size_t input) -> const TensorT& {
    return *graph.tensors[static_cast<size_t>(made.inputs[input])];
  };
  const TensorT& x = tensor(0);
  const bool is_signed = x.type == TensorType_INT8;
  const size_t dimensions = x.shape.size();
  switch (kind) {
    case BuiltinOperator_CONV_2D:
      if (tensor(1).shape[3] != x.shape[3]) return 6;  // in groups
      return is_signed ? 3 : 1;
    case BuiltinOperator_DEPTHWISE_CONV_2D: {
      const DepthwiseConv2DOptionsT& options = *made.builtin_options.AsDepthwiseConv2DOptions();
      if (is_signed) return 3;
      return options.dilation_w_factor > 1 || options.dilation_h_factor > 1 ? 2 : 1;
    }
    case BuiltinOperator_MUL:
      if (is_signed && tensor(0).quantization->scale[0] * tensor(1).quantization->scale[0] >=
                           graph.tensors[static_cast<size_t>(made.outputs[0])]->quantization->scale[0])
        return 3;
      return is_signed ? 2 : 1;
    case BuiltinOperator_RELU:
      return is_signed || x.type == TensorType_UINT8 ? 2 : 1;
    case BuiltinOperator_ADD:
    case BuiltinOperator_MEAN:
    case BuiltinOperator_LOGISTIC:
    case BuiltinOperator_RELU6:
    case BuiltinOperator_GATHER:
    case BuiltinOperator_MAX_POOL_2D:
    case BuiltinOperator_AVERAGE_POOL_2D:
    case BuiltinOperator_CONCATENATION:
    case BuiltinOperator_RESIZE_NEAREST_NEIGHBOR:
      return is_signed ? 2 : 1;
    case BuiltinOperator_PAD:
    case BuiltinOperator_PADV2:
      if (dimensions > 4) return 4;
      return is_signed ? 2 : 1;
    case BuiltinOperator_DEQUANTIZE:
      if (!is_signed) return 1;
      return x.quantization->scale.size() > 1 ? 5 : 2;
    case BuiltinOperator_TRANSPOSE:
      if (dimensions > 5) return 6;
      return dimensions > 4 ? 4 : 1;
    case BuiltinOperator_STRIDED_SLICE:
      if (dimensions > 4) return 4;
      return is_signed ? 2 : 1;
    case BuiltinOperator_SUB:
      if (dimensions > 4) return 3;
      return is_signed ? 2 : 1;
    case BuiltinOperator_MAXIMUM:
    case BuiltinOperator_MINIMUM:
      return dimensions > 4 ? 3 : 1;
    case BuiltinOperator_DIV:
      return dimensions > 4 ? 2 : 1;
    default:
      return 1;
  }
}

/// What is kept of a list, in its order, with its new places.
template <class Element>
class Kept {
 public:
  explicit Kept(std::vector<Element>& all) : all_(all) {}

  /// The new place of the element of an old one.
  template <class Index>
  Index place_of(Index old) {
    const auto [place, is_new] = places_.try_emplace(static_cast<size_t>(old), kept_.size());
    if (is_new) kept_.push_back(std::move(all_[static_cast<size_t>(old)]));
    return static_cast<Index>(place->second);
  }
  /// Leaves in the list what was asked for.
  void apply() { all_ = std::move(kept_); }

 private:
  std::vector<Element>& all_;
  std::vector<Element> kept_;
  std::map<size_t, size_t> places_;
};

void leave_out_unread(SubGraphT& graph) {
  std::set<int32_t> read(graph.outputs.begin(), graph.outputs.end());
  std::vector<std::unique_ptr<OperatorT>> kept;
  for (size_t i = graph.operators.size(); i-- > 0;) {
    OperatorT& made = *graph.operators[i];
    if (std::ranges::none_of(made.outputs, [&](int32_t output) { return read.contains(output); })) continue;
    read.insert(made.inputs.begin(), made.inputs.end());
    kept.push_back(std::move(graph.operators[i]));
  }
  std::ranges::reverse(kept);
  graph.operators = std::move(kept);
}

}  // namespace

ModelT finished(const ModelT& model) {
  ModelT result(model);
  SubGraphT& graph = *result.subgraphs.front();
  leave_out_unread(graph);
  std::map<uint32_t, int32_t> versions;
  for (const auto& made : graph.operators) {
    const BuiltinOperator kind = result.operator_codes[made->opcode_index]->builtin_code;
    int32_t& version = versions[made->opcode_index];
    version = std::max(version, version_of(kind, *made, graph));
  }
  for (const auto& [code, version] : versions) result.operator_codes[code]->version = version;

  Kept codes(result.operator_codes);
  Kept tensors(graph.tensors);
  for (int32_t& input : graph.inputs) input = tensors.place_of(input);
  for (const auto& made : graph.operators) {
    made->opcode_index = codes.place_of(made->opcode_index);
    for (int32_t& input : made->inputs) input = tensors.place_of(input);
    for (int32_t& output : made->outputs) output = tensors.place_of(output);
  }
  for (int32_t& output : graph.outputs) output = tensors.place_of(output);
  codes.apply();
  tensors.apply();
  Kept buffers(result.buffers);
  buffers.place_of(0);  // of all that is computed
  for (const auto& tensor : graph.tensors) tensor->buffer = buffers.place_of(tensor->buffer);
  for (const auto& entry : result.metadata) entry->buffer = buffers.place_of(entry->buffer);
  buffers.apply();
  return result;
}

}  // namespace osprey::tflite
