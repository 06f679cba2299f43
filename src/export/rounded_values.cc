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

/// What is put together by an operation.
at::ArrayRef<Value*> parts_of(const Node& node) {
  const bool lists = node.kind() == c10::aten::cat && node.input(0)->node()->kind() == c10::prim::ListConstruct;
  return lists ? node.input(0)->node()->inputs() : at::ArrayRef<Value*>();
}

/// Finds them.
class Search {
 public:
  Search(Graph& graph, bool with_picture) {
    find_behind_convolutions(graph);
    find_before_convolutions(graph);
    if (with_picture) add_pictures(graph);
    for (Node* node : graph.nodes())
      if (computes(*node)) add(*node);
  }

  const RoundedValues& result() const { return result_; }

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

  void add_pictures(Graph& graph) {
    for (Node* node : graph.nodes()) {
      if (!convolves(*node) || behind_.contains(node->input(0))) continue;
      Value* picture = node->input(0);
      while (only_moves(*picture->node())) picture = picture->node()->input(0);
      if (!rounded_.contains(picture) && !rounds(*picture->node())) add(picture);
    }
  }

  void add(Value* value) {
    result_.all.push_back(value);
    rounded_.insert(value);
  }

  void add(Node& node) {
    std::vector<const Value*> parts;
    for (const Value* part : parts_of(node)) parts.push_back(rounded_source(part));
    if (!parts.empty() && std::ranges::all_of(parts, [](const Value* part) { return part != nullptr; })) {
      put_together_.insert(node.output());
      result_.alike.push_back(parts);
      return;
    }
    if (is_left_to_its_reader(*node.output())) return;
    add(node.output());
    const bool averages = node.kind() == c10::aten::avg_pool2d;
    if (const Value* averaged = averages ? rounded_source(node.input(0)) : nullptr)
      result_.alike.push_back({averaged, node.output()});
  }

  /// The rounded value that is only moved until it is `value`; null where there is none.
  const Value* rounded_source(const Value* value) const {
    while (!rounded_.contains(value)) {
      if (only_moves(*value->node()))
        value = value->node()->input(0);
      else if (put_together_.contains(value))
        value = parts_of(*value->node()).front();
      else
        return nullptr;
    }
    return value;
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
  Values rounded_, put_together_;
  RoundedValues result_;
};

}  // namespace

const Value* source(const Value* value) {
  for (;;) {
    const Node& node = *value->node();
    if (only_moves(node))
      value = node.input(0);
    else if (!parts_of(node).empty())
      value = parts_of(node).front();
    else
      return value;
  }
}

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

RoundedValues rounded_values(Graph& graph, bool with_picture) { return Search(graph, with_picture).result(); }

}  // namespace osprey
