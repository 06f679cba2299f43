#include "export/rounded_values.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Values = std::unordered_set<const Value*>;

bool is_one_of(const Node& node, const std::set<c10::Symbol>& kinds) { return kinds.contains(node.kind()); }

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

}  // namespace

bool gives_floats(const Node& node) {
  if (!node.kind().is_aten() || node.outputs().size() != 1) return false;
  const auto type = node.output()->type()->cast<c10::TensorType>();
  return type != nullptr && type->scalarType() == at::kFloat;
}

bool convolves(const Node& node) { return node.kind() == c10::aten::_convolution; }

bool rounds(const Node& node) {
  return is_one_of(node, {c10::aten::fake_quantize_per_tensor_affine, c10::aten::fake_quantize_per_channel_affine});
}

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

std::vector<Value*> rounded_values(Graph& graph, bool with_picture) {
  const RoundedValues values(graph);
  std::vector<Value*> result = with_picture ? values.pictures(graph) : std::vector<Value*>();
  result.insert(result.end(), values.all().begin(), values.all().end());
  return result;
}

}  // namespace osprey
