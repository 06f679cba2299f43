#include "export/cpu_roundings.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "export/operation_inputs.h"
#include "kernels/arithmetic/rounding.h"
#include "osprey/kernels/epilogue.h"

namespace osprey {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// The range [2] of which our kernels make these numbers and no others; nothing where there is none.
std::optional<at::Tensor> range_of(float scale, int64_t zero, int64_t first) {
  constexpr int kDigits = 12;  // of where the range begins, so that its end, the sum with its length, is exact
  const auto count = static_cast<float>(255 - first), below = scale * static_cast<float>(zero - first);
  int exponent = 0;
  const float mantissa = std::frexp(below, &exponent),
              begin = -std::ldexp(std::round(std::ldexp(mantissa, kDigits)), exponent - kDigits);
  float length = scale * count;
  for (const float direction : {0.f, std::numeric_limits<float>::infinity()}) {
    float near = length;
    for (int step = 0; step < 3; ++step, near = std::nextafter(near, direction)) {
      const float range[] = {begin, near + begin};
      const auto rounding = kernels::Rounding::of(range, /*rounds=*/true, static_cast<int>(first));
      if (rounding.scale == scale && static_cast<int64_t>(rounding.least) == first - zero)
        return at::tensor({range[0], range[1]});
    }
  }
  return std::nullopt;
}

/// fake_quantize_per_tensor_affine: x, scale, number of zero, first and last number.
void replace(Graph& graph, Node* node) {
  const auto scale = torch::jit::toIValue(node->input(1));
  const auto zero = torch::jit::constant_as<int64_t>(node->input(2)),
             first = torch::jit::constant_as<int64_t>(node->input(3)),
             last = torch::jit::constant_as<int64_t>(node->input(4));
  if (!scale || !scale->isDouble() || !zero || !first || !last || *last != 255 || *first < 0 || *first > 1) return;
  const auto range = range_of(static_cast<float>(scale->toDouble()), *zero, *first);
  if (!range) return;
  const torch::jit::WithInsertPoint before(node);
  Value* const none = graph.insertConstant(c10::IValue());
  const kernels::Epilogue nothing;
  Node* const operation = graph.insertNode(
      graph.create(c10::Symbol::fromQualString("osprey::rounded_values"),
                   {node->input(0), none, none, none, none, graph.insertConstant(static_cast<double>(nothing.low)),
                    graph.insertConstant(static_cast<double>(nothing.high)),
                    graph.insertConstant(static_cast<int64_t>(nothing.curve)), graph.insertConstant(*range), none,
                    graph.insertConstant(*first)}));
  node->output()->replaceAllUsesWith(operation->output());
}

}  // namespace

void prepare_roundings_for_cpu(const torch::jit::Module& network, const at::Tensor& images) {
  const at::NoGradGuard no_gradients;
  const std::shared_ptr<Graph> graph = network.get_method("forward").graph();
  std::vector<Node*> roundings;
  for (Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine) roundings.push_back(node);
  if (roundings.empty()) return;
  const at::Tensor shapes = at::tensor({images.size(2), images.size(3)}, at::kLong).repeat({images.size(0), 1});
  const std::vector<MapInput> inputs =
      inputs_of(*graph, "aten::fake_quantize_per_tensor_affine", {network._ivalue(), images, shapes});
  if (inputs.size() != roundings.size()) return;  // not a graph of ours
  for (size_t i = 0; i < roundings.size(); ++i)
    if (inputs[i].channels_last) replace(*graph, roundings[i]);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace osprey
