#include "export/tflite/rules.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "export/shared_rules.h"
#include "export/tflite/convolution.h"
#include "export/tflite/rounding.h"

namespace osprey::tflite {
namespace {

/// A result of the same shape, of a value and a number.
template <class Options = BuiltinOptionsUnion>
Value with_number(const Operation& o, BuiltinOperator operation, const Value& x, double value,
                  const Options& options = {}) {
  return o.graph.add(operation, {x, o.graph.number(value)}, o.written_shape(x.is_map), options);
}

/// By the operation that made argument 0, where that is possible and nothing else reads what it made.
Value activated(const Operation& o, Activation activation, BuiltinOperator operation) {
  if (o.alone_reads(0) && o.graph.activate(o.tensor(0), activation)) return o.tensor(0);
  return o.elementwise(operation);
}

/// Between two limits, by the numbers of their arguments, of which either may be left out.
Value clamped(const Operation& o, std::optional<size_t> low, std::optional<size_t> high) {
  const auto given = [&](std::optional<size_t> limit) { return limit && o.given(*limit); };
  if (given(low) && given(high) && o.is_constant(*low) && o.is_constant(*high) && o.real(*low) == 0 &&
      o.real(*high) == 6)
    return activated(o, Activation_RELU6, BuiltinOperator_RELU6);
  Value x = o.tensor(0);
  if (given(low)) x = with_number(o, BuiltinOperator_MAXIMUM, x, o.real(*low));
  if (given(high)) x = with_number(o, BuiltinOperator_MINIMUM, x, o.real(*high));
  return x;
}

Value hard_sigmoid(const Operation& o) {
  AddOptionsT activated;
  activated.fused_activation_function = Activation_RELU6;
  const Value sum = with_number(o, BuiltinOperator_ADD, o.tensor(0), 3, activated);
  return with_number(o, BuiltinOperator_MUL, sum, 1. / 6, MulOptionsT());
}

/// Adds or subtracts.
template <class Options>
Value sum(const Operation& o, BuiltinOperator operation) {
  o.expect(2, "a factor", 1);
  return o.arithmetic(operation, 0, 1, Options());
}

/// input, weight, bias, mean, variance, training, momentum, epsilon
Value batch_norm(const Operation& o) {
  o.expect(5, "statistics of the batch", false);
  if (!o.given(3) || !o.given(4)) throw o.refused("statistics of the batch");
  const auto of_channels = [&](size_t i, double otherwise) {
    return o.given(i) ? o.constant(i).toTensor() : at::full({o.shape(0)[1]}, otherwise);
  };
  const at::Tensor factor = of_channels(1, 1) / (of_channels(4, 1) + o.real(7)).sqrt();
  const Shape shape = o.written_shape(true);
  const Value scaled = o.graph.add(BuiltinOperator_MUL, {o.map(0), o.graph.constant(factor)}, shape, MulOptionsT());
  return o.graph.add(BuiltinOperator_ADD, {scaled, o.graph.constant(of_channels(2, 0) - of_channels(3, 0) * factor)},
                     shape, AddOptionsT());
}

/// input, dim, keepdim, dtype
Value mean(const Operation& o) {
  if (o.count() == 2 || !o.given(1)) throw o.refused("all dimensions");
  o.expect(3, "another type");
  ReducerOptionsT options;
  options.keep_dims = o.flag(2);
  const Value x = options.keep_dims ? o.tensor(0) : o.plain(0);
  Shape axes;
  for (const int64_t dimension : o.integers(1)) axes.push_back(Operation::written_axis(x, o.axis(0, dimension)));
  return o.graph.add(BuiltinOperator_MEAN, {x, o.graph.integers(axes)}, o.written_shape(x.is_map), options);
}

/// Repeats rows and columns: by the format's own operation where each comes as often as any other, else by their
/// numbers.   input, size, then a scale of rows and one of columns
Value upsampled(const Operation& o) {
  const Upsampling upsampling(o);
  const Shape before = o.shape(0), after = o.result_shape();
  Value x = o.map(0);
  if (upsampling.is_even())
    return o.graph.add(BuiltinOperator_RESIZE_NEAREST_NEIGHBOR, {x, o.graph.integers({after[2], after[3]})},
                       o.written_shape(true));
  Shape lengths = channels_last(before);
  for (const size_t axis : {2, 3}) {
    lengths[axis - 1] = after[axis];
    GatherOptionsT options;
    options.axis = static_cast<int32_t>(axis) - 1;
    x = o.graph.add(BuiltinOperator_GATHER, {x, o.graph.constant(upsampling.places(axis).to(at::kInt))}, lengths,
                    options);
  }
  return x;
}

/// Elements [begin, end) of dimension `dimension` of argument 0.
Value sliced(const Operation& o, int64_t dimension, int64_t begin, int64_t end, int64_t step) {
  const Value x = o.tensor(0);
  const int64_t length = o.shape(0)[static_cast<size_t>(dimension)];
  const auto within = [&](int64_t place) { return std::clamp(place < 0 ? place + length : place, int64_t{0}, length); };
  Shape ends = o.graph.shape(x), begins(ends.size(), 0), steps(ends.size(), 1);
  const auto axis = static_cast<size_t>(Operation::written_axis(x, dimension));
  begins[axis] = within(begin);
  ends[axis] = within(end);
  steps[axis] = step;
  return o.graph.add(BuiltinOperator_STRIDED_SLICE,
                     {x, o.graph.integers(begins), o.graph.integers(ends), o.graph.integers(steps)},
                     o.written_shape(x.is_map), StridedSliceOptionsT());
}

Value concatenated(const Operation& o) {
  std::vector<Value> parts = o.tensors(0);
  const int64_t dimension = at::maybe_wrap_dim(o.integer(1), static_cast<int64_t>(o.result_shape().size()));
  const bool as_map = std::all_of(parts.begin(), parts.end(), [](const Value& part) { return part.is_map; });
  if (!as_map && std::any_of(parts.begin(), parts.end(), [](const Value& part) { return part.is_map; }))
    throw o.refused("maps and others");
  ConcatenationOptionsT options;
  options.axis = Operation::written_axis(parts.front(), dimension);
  return o.graph.add(BuiltinOperator_CONCATENATION, parts, o.written_shape(as_map), options);
}

/// A map with its channels behind the others is one as the file has it.
Value permuted(const Operation& o) {
  Shape order = o.integers(1);
  for (int64_t& axis : order) axis = o.axis(0, axis);
  const Value x = o.tensor(0);
  if (x.is_map && order == Shape{0, 2, 3, 1}) return {x.tensor, false};
  if (!x.is_map && order == Shape{0, 3, 1, 2}) return {x.tensor, true};
  return o.graph.add(BuiltinOperator_TRANSPOSE, {o.plain(0), o.graph.integers(order)}, o.result_shape());
}

Value reshaped(const Operation& o) {
  const Shape shape = o.result_shape();
  if (shape == o.shape(0)) return o.tensor(0);
  return o.graph.add(BuiltinOperator_RESHAPE, {o.plain(0), o.graph.integers(shape)}, shape);
}

/// The same numbers.
Value as_it_is(const Operation& o) {
  if (o.type(0) != o.result_type()) throw o.refused("another type");
  return o.tensor(0);
}

Value softmax(const Operation& o) {
  o.expect(2, "another type");
  const Value x = o.tensor(0);
  const int64_t last = static_cast<int64_t>(o.shape(0).size()) - 1;
  if (Operation::written_axis(x, o.axis(0, o.integer(1))) != last) throw o.refused("another dimension than the last");
  SoftmaxOptionsT options;
  options.beta = 1;
  return o.graph.add(BuiltinOperator_SOFTMAX, {x}, o.written_shape(x.is_map), options);
}

/// How each operation of libtorch is written, by its name without the mark of those that work in place.
const std::map<std::string_view, Rule>& all_rules() {
  static const std::map<std::string_view, Rule> result{
      {"_convolution", convolution},
      {"batch_norm", batch_norm},
      {"max_pool2d", max_pool},
      {"avg_pool2d", average_pool},
      {"mean", mean},
      {"upsample_nearest2d", upsampled},
      {"constant_pad_nd", padded},
      // activations
      {"relu", [](const Operation& o) { return activated(o, Activation_RELU, BuiltinOperator_RELU); }},
      {"hardtanh", [](const Operation& o) { return clamped(o, 1, 2); }},
      {"sigmoid", [](const Operation& o) { return o.elementwise(BuiltinOperator_LOGISTIC); }},
      {"silu",
       [](const Operation& o) {
         const Value gates = o.elementwise(BuiltinOperator_LOGISTIC);
         return o.graph.add(BuiltinOperator_MUL, {o.tensor(0), gates}, o.written_shape(gates.is_map), MulOptionsT());
       }},
      {"hardswish", [](const Operation& o) { return o.elementwise(BuiltinOperator_HARD_SWISH); }},
      {"hardsigmoid", hard_sigmoid},
      {"softmax", softmax},
      // arithmetic
      {"add", [](const Operation& o) { return sum<AddOptionsT>(o, BuiltinOperator_ADD); }},
      {"sub", [](const Operation& o) { return sum<SubOptionsT>(o, BuiltinOperator_SUB); }},
      {"rsub",
       [](const Operation& o) {
         o.expect(2, "a factor", 1);
         return o.arithmetic(BuiltinOperator_SUB, 1, 0, SubOptionsT());
       }},
      {"mul", [](const Operation& o) { return o.arithmetic(BuiltinOperator_MUL, 0, 1, MulOptionsT()); }},
      {"div",
       [](const Operation& o) {
         o.expect(2, "rounding");
         return o.arithmetic(BuiltinOperator_DIV, 0, 1, DivOptionsT());
       }},
      {"exp", [](const Operation& o) { return o.elementwise(BuiltinOperator_EXP); }},
      {"square", [](const Operation& o) { return o.arithmetic(BuiltinOperator_MUL, 0, 0, MulOptionsT()); }},
      {"minimum", [](const Operation& o) { return o.arithmetic(BuiltinOperator_MINIMUM); }},
      {"maximum", [](const Operation& o) { return o.arithmetic(BuiltinOperator_MAXIMUM); }},
      {"clamp", [](const Operation& o) { return clamped(o, 1, 2); }},
      {"clamp_min", [](const Operation& o) { return clamped(o, 1, std::nullopt); }},
      {"clamp_max", [](const Operation& o) { return clamped(o, std::nullopt, 1); }},
      {"fake_quantize_per_channel_affine", rounded_by_channels},
      {"fake_quantize_per_tensor_affine", rounded},
      // where things lie
      {"cat", concatenated},
      {"permute", permuted},
      {"reshape", reshaped},
      {"view", reshaped},
      {"unsqueeze", reshaped},
      {"squeeze", reshaped},
      {"flatten", reshaped},
      {"slice",
       [](const Operation& o) {
         return sliced(o, o.axis(0, o.integer(1)), o.given(2) ? o.integer(2) : 0,
                       o.given(3) ? o.integer(3) : std::numeric_limits<int64_t>::max(), o.integer(4));
       }},
      {"narrow",
       [](const Operation& o) {
         return sliced(o, o.axis(0, o.integer(1)), o.integer(2), o.integer(2) + o.integer(3), 1);
       }},
      {"to", as_it_is},
      {"contiguous", as_it_is},
      {"clone", as_it_is},
      {"detach", as_it_is},
  };
  return result;
}

}  // namespace

Rule rule(std::string_view operation) { return rule_in(all_rules(), operation); }

std::vector<std::string_view> rules() { return names_in(all_rules()); }

}  // namespace osprey::tflite
