#include "export/tflite/convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace osprey::tflite {
namespace {

/// How a window goes along one side of a map.
struct Way {
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  ///< padding
  int64_t from = 0, to = 0;       ///< lengths of map and result

  int64_t width() const { return dilation * (kernel - 1) + 1; }
  bool has_padding() const { return before != 0 || after != 0; }
  /// Whether TensorFlow's padding SAME is this one: what the last window lacks, the odd one behind.
  bool is_same() const {
    const int64_t lacks = std::max<int64_t>((to - 1) * stride + width() - from, 0);
    return to == (from + stride - 1) / stride && before == lacks / 2 && after == lacks - lacks / 2;
  }
};
using Ways = std::array<Way, 2>;  // of rows and columns

/// That of an operation whose numbers for kernel, stride, padding and dilation are known.
Ways ways_of(const Operation& o, const Shape& kernel, const Shape& stride, const Shape& padding,
             const Shape& dilation) {
  const Shape before = o.shape(0), after = o.result_shape();
  if (before.size() != 4) throw o.refused("another number of dimensions than two");
  Ways ways;
  for (size_t side = 0; side < 2; ++side) {
    ways[side] = {kernel[side],  stride[side],     dilation[side], padding[side],
                  padding[side], before[2 + side], after[2 + side]};
    // A last window that hangs over the edge reads more than is padded, one that does not fit is left out.
    Way& way = ways[side];
    way.after = std::max<int64_t>((way.to - 1) * way.stride + way.width() - way.from - way.before, 0);
  }
  return ways;
}

Value with_padding(Graph& graph, const Value& x, const Ways& ways, std::optional<float> filling) {
  Shape shape = graph.shape(x);
  for (size_t side = 0; side < 2; ++side) shape[1 + side] += ways[side].before + ways[side].after;
  const Value amounts = graph.constant(
      at::tensor({0L, 0L, ways[0].before, ways[0].after, ways[1].before, ways[1].after, 0L, 0L}, at::kInt)
          .view({4, 2}));
  if (!filling) return graph.add(BuiltinOperator_PAD, {x, amounts}, shape);
  return graph.add(BuiltinOperator_PADV2, {x, amounts, graph.number(*filling)}, shape);
}

/// What a window goes over, and the padding that the operation itself then has.
struct Padded {
  Value x;
  Padding padding = Padding_VALID;
};

/// The map with zeros around it. Zeros that an operation before has put there count as the operation's own.
Padded with_zeros(Graph& graph, Value x, Ways ways) {
  const Value given = x;
  Ways whole = ways;
  const OperatorT* maker = graph.maker(x);
  const at::Tensor amounts = maker != nullptr && graph.kind(*maker) == BuiltinOperator_PAD
                                 ? graph.elements(maker->inputs[1])
                                 : at::zeros({4, 2}, at::kInt);
  const bool of_sides_alone =
      amounts[0].count_nonzero().item<int64_t>() + amounts[3].count_nonzero().item<int64_t>() == 0;
  if (maker != nullptr && graph.kind(*maker) == BuiltinOperator_PAD && of_sides_alone) {
    x = {maker->inputs[0], true};
    for (int64_t side = 0; side < 2; ++side) {
      Way& way = whole[static_cast<size_t>(side)];
      way.before += amounts[1 + side][0].item<int32_t>();
      way.after += amounts[1 + side][1].item<int32_t>();
      way.from = graph.shape(x)[static_cast<size_t>(1 + side)];
    }
  }
  if (whole[0].is_same() && whole[1].is_same()) return {x, Padding_SAME};
  if (!ways[0].has_padding() && !ways[1].has_padding()) return {given};
  return {with_padding(graph, x, whole, std::nullopt)};
}

int32_t as_int(int64_t number) { return static_cast<int32_t>(number); }

/// Options that all windows share.
template <class Options>
Options options_of(const Ways& ways, Padding padding) {
  Options options;
  options.padding = padding;
  options.stride_h = as_int(ways[0].stride);
  options.stride_w = as_int(ways[1].stride);
  return options;
}

template <class Options>
Options convolution_options(const Ways& ways, Padding padding) {
  auto options = options_of<Options>(ways, padding);
  options.dilation_h_factor = as_int(ways[0].dilation);
  options.dilation_w_factor = as_int(ways[1].dilation);
  return options;
}

Pool2DOptionsT pool_options(const Ways& ways, Padding padding) {
  auto options = options_of<Pool2DOptionsT>(ways, padding);
  options.filter_height = as_int(ways[0].kernel);
  options.filter_width = as_int(ways[1].kernel);
  return options;
}

/// The weights of a convolution with their dimensions in another order; rounded ones as numbers.
Value weights_of(const Operation& o, const Shape& order) {
  Graph& graph = o.graph;
  if (o.is_constant(1)) return graph.constant(o.constant(1).toTensor().permute(order));
  const Value values = o.tensor(1);
  const OperatorT* maker = graph.maker(values);
  if (maker == nullptr || graph.kind(*maker) != BuiltinOperator_DEQUANTIZE)
    throw o.refused("weights that are computed");
  const Value numbers{maker->inputs[0]};
  Steps steps = graph.steps(numbers);
  steps.axis = as_int(std::find(order.begin(), order.end(), steps.axis) - order.begin());
  const Value permuted = graph.constant(graph.elements(numbers.tensor).permute(order), steps);
  return graph.add(BuiltinOperator_DEQUANTIZE, {permuted}, graph.shape(permuted));
}

/// input, kernel_size, stride, padding, then dilation where there is one
Ways pool_ways(const Operation& o, const Shape& dilation) {
  return ways_of(o, o.pair(1), o.pair(o.integers(2).empty() ? 1 : 2), o.pair(3), dilation);
}

}  // namespace

Value convolution(const Operation& o) {
  if (o.flag(6)) throw o.refused("its directions exchanged");
  const Shape of_weights = o.shape(1);
  if (of_weights.size() != 4) throw o.refused("another number of dimensions than two");
  const Ways ways = ways_of(o, {of_weights[2], of_weights[3]}, o.pair(3), o.pair(4), o.pair(5));
  const auto [x, padding] = with_zeros(o.graph, o.map(0), ways);
  const bool depthwise = o.integer(8) > 1 && of_weights[1] == 1;
  const Value weights = weights_of(o, depthwise ? Shape{1, 2, 3, 0} : Shape{0, 2, 3, 1});
  const Value biases = o.graph.constant(o.given(2) ? o.constant(2).toTensor() : at::zeros({of_weights[0]}));
  if (!depthwise)
    return o.graph.add(BuiltinOperator_CONV_2D, {x, weights, biases}, o.written_shape(true),
                       convolution_options<Conv2DOptionsT>(ways, padding));
  auto options = convolution_options<DepthwiseConv2DOptionsT>(ways, padding);
  options.depth_multiplier = as_int(of_weights[0] / o.integer(8));
  return o.graph.add(BuiltinOperator_DEPTHWISE_CONV_2D, {x, weights, biases}, o.written_shape(true), options);
}

Value max_pool(const Operation& o) {
  const Shape dilation = o.pair(4);
  if (dilation != Shape{1, 1}) throw o.refused("dilation");
  const Ways ways = pool_ways(o, dilation);
  const bool same = ways[0].is_same() && ways[1].is_same(), none = !ways[0].has_padding() && !ways[1].has_padding();
  Value x = o.map(0);
  if (!same && !none) x = with_padding(o.graph, x, ways, std::numeric_limits<float>::lowest());
  return o.graph.add(BuiltinOperator_MAX_POOL_2D, {x}, o.written_shape(true),
                     pool_options(ways, same ? Padding_SAME : Padding_VALID));
}

Value average_pool(const Operation& o) {
  o.expect(6, "a divisor of its own");
  const Ways ways = pool_ways(o, {1, 1});
  Value x = o.map(0);
  if (!ways[0].has_padding() && !ways[1].has_padding())
    return o.graph.add(BuiltinOperator_AVERAGE_POOL_2D, {x}, o.written_shape(true), pool_options(ways, Padding_VALID));
  if (o.flag(4)) throw o.refused("a last window that hangs over the edge");
  if (o.flag(5)) {  // zeros of the padding count
    x = with_padding(o.graph, x, ways, std::nullopt);
    return o.graph.add(BuiltinOperator_AVERAGE_POOL_2D, {x}, o.written_shape(true), pool_options(ways, Padding_VALID));
  }
  if (!ways[0].is_same() || !ways[1].is_same()) throw o.refused("a padding that does not count and is not SAME");
  return o.graph.add(BuiltinOperator_AVERAGE_POOL_2D, {x}, o.written_shape(true), pool_options(ways, Padding_SAME));
}

Value padded(const Operation& o) {
  const Shape pairs = o.integers(1);
  const auto dimensions = static_cast<int64_t>(o.shape(0).size());
  const Value x = o.tensor(0);
  const at::Tensor amounts = at::zeros({dimensions, 2}, at::kInt);
  for (size_t i = 0; i < pairs.size(); ++i) {  // from the last dimension on, before and behind
    if (pairs[i] < 0) throw o.refused("fewer than no numbers");
    amounts[Operation::written_axis(x, dimensions - 1 - static_cast<int64_t>(i / 2))][static_cast<int64_t>(i % 2)] =
        pairs[i];
  }
  std::vector<Value> inputs{x, o.graph.constant(amounts)};
  if (o.real(2) == 0) return o.graph.add(BuiltinOperator_PAD, inputs, o.written_shape(x.is_map));
  const auto filling =  // the lowest number, where infinities stand for nothing
      std::max(static_cast<float>(o.real(2)), std::numeric_limits<float>::lowest());
  inputs.push_back(o.graph.number(filling));
  return o.graph.add(BuiltinOperator_PADV2, inputs, o.written_shape(x.is_map));
}

}  // namespace osprey::tflite
