#include "export/onnx/rules.h"

#include <ATen/ATen.h>

#include <limits>
#include <map>
#include <optional>

#include "export/shared_rules.h"

namespace osprey {
namespace {

using Integers = std::vector<int64_t>;

/// Adds or subtracts, the second operand times a factor.
OnnxValue sum(const Operation& o, const char* operation) {
  const double factor = o.given(2) ? o.real(2) : 1;
  if (factor == 1) return o.arithmetic(operation);
  const at::ScalarType type = o.result_type();
  return o.graph.add(operation,
                     {o.operand(0, type), o.graph.add("Mul", {o.operand(1, type), o.graph.number(factor, type)})});
}

/// Between two limits, by the numbers of their arguments, of which either may be left out.
OnnxValue clamped(const Operation& o, std::optional<size_t> low, std::optional<size_t> high) {
  const at::ScalarType type = o.result_type();
  const auto given = [&](std::optional<size_t> limit) { return limit && o.given(*limit); };
  const auto tensor = [&](std::optional<size_t> limit) { return given(limit) && !o.is_number(*limit); };
  const auto value = [&](std::optional<size_t> limit) { return given(limit) ? o.operand(*limit, type) : ""; };
  OnnxValue x = o.operand(0, type);
  if (at::isFloatingType(type) && !tensor(low) && !tensor(high))  // all that Clip takes
    return o.graph.add("Clip", {x, value(low), value(high)});
  if (given(low)) x = o.graph.add("Max", {x, value(low)});
  if (given(high)) x = o.graph.add("Min", {x, value(high)});
  return x;
}

/// x, scale, number of zero, first and last number. Constants, the weights, are written as their numbers.
OnnxValue rounded_to_numbers(const Operation& o) {
  o.expect(4, "another last number than 255", 255);
  const OnnxValue scale = o.graph.number(o.real(1)),
                  zero = o.graph.constant(at::scalar_tensor(o.integer(2), at::TensorOptions(at::kByte)));
  OnnxValue numbers;
  if (o.is_constant(0)) {
    numbers = o.graph.constant(numbers_of_weights(o));
  } else {
    o.expect(3, "another first number than 0", 0);
    numbers = o.graph.add("QuantizeLinear", {o.tensor(0), scale, zero});
  }
  return o.graph.add("DequantizeLinear", {numbers, scale, zero});
}

/// x, scales, numbers of zero, axis, first and last number. Constants alone, the weights, written as their numbers.
OnnxValue rounded_to_numbers_by_channels(const Operation& o) {
  const OnnxValue numbers = o.graph.constant(numbers_of_weights_by_channels(o)),
                  zeros = o.graph.constant(o.constant(2).toTensor().to(at::kChar));
  return o.graph.add("DequantizeLinear", {numbers, o.tensor(1), zeros}, {{"axis", o.axis(0, o.integer(3))}});
}

/// The same padding before and behind each dimension.
Integers on_both_sides(Integers padding) {
  padding.insert(padding.end(), {padding[0], padding[1]});
  return padding;
}

OnnxValue convolution(const Operation& o) {
  if (o.flag(6)) throw o.refused("its directions exchanged");
  if (o.shape(1).size() != 4) throw o.refused("another number of dimensions than two");
  std::vector<OnnxValue> inputs{o.tensor(0), o.tensor(1)};
  if (o.given(2)) inputs.push_back(o.tensor(2));
  const Integers weights = o.shape(1);
  return o.graph.add("Conv", inputs,
                     {{"kernel_shape", Integers{weights[2], weights[3]}},
                      {"strides", o.pair(3)},
                      {"pads", on_both_sides(o.pair(4))},
                      {"dilations", o.pair(5)},
                      {"group", o.integer(8)}});
}

/// input, weight, bias, mean, variance, training, momentum, epsilon
OnnxValue batch_norm(const Operation& o) {
  o.expect(5, "statistics of the batch", false);
  if (!o.given(3) || !o.given(4)) throw o.refused("statistics of the batch");
  const auto of_channels = [&](size_t i, double otherwise) {
    return o.given(i) ? o.tensor(i) : o.graph.constant(at::full({o.shape(0)[1]}, otherwise));
  };
  return o.graph.add("BatchNormalization",
                     {o.tensor(0), of_channels(1, 1), of_channels(2, 0), o.tensor(3), o.tensor(4)},
                     {{"epsilon", o.real(7)}});
}

/// What the kinds of pools have each at another place.
struct PoolForm {
  Integers dilation = {1, 1};
  bool ceil_mode = false;  ///< the last window may hang over the edge
};

/// input, kernel_size, stride, padding, then what differs
OnnxValue pool(const Operation& o, const char* operation, const PoolForm& form, OnnxGraph::Attributes attributes) {
  const Integers kernel = o.pair(1), stride = o.pair(o.integers(2).empty() ? 1 : 2), padding = o.pair(3),
                 before = o.shape(0), after = o.result_shape();
  if (before.size() != 4) throw o.refused("another number of dimensions than two");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t way = before[2 + i] + 2 * padding[i] - form.dilation[i] * (kernel[i] - 1) - 1,
                  windows = (form.ceil_mode ? way + stride[i] - 1 : way) / stride[i] + 1;
    if (windows != after[2 + i]) throw o.refused("no last window where it would begin in the padding");
  }
  attributes.insert(attributes.end(), {{"kernel_shape", kernel},
                                       {"strides", stride},
                                       {"pads", on_both_sides(padding)},
                                       {"ceil_mode", int64_t{form.ceil_mode}}});
  return o.graph.add(operation, {o.tensor(0)}, attributes);
}

OnnxValue max_pool(const Operation& o) {
  return pool(o, "MaxPool", {o.pair(4), o.flag(5)}, {{"dilations", o.pair(4)}});
}

OnnxValue average_pool(const Operation& o) {
  o.expect(6, "a divisor of its own");
  return pool(o, "AveragePool", {.ceil_mode = o.flag(4)}, {{"count_include_pad", int64_t{o.flag(5)}}});
}

/// input, then dtype alone, or dim, keepdim, dtype
OnnxValue mean(const Operation& o) {
  const bool of_all = o.count() == 2;
  o.expect(of_all ? 1 : 3, "another type");
  Integers axes = of_all || !o.given(1) ? Integers() : o.integers(1);
  for (int64_t& axis : axes) axis = o.axis(0, axis);
  OnnxGraph::Attributes attributes{{"keepdims", int64_t{!of_all && o.flag(2)}}};
  if (!axes.empty()) attributes.push_back({"axes", axes});
  return o.graph.add("ReduceMean", {o.tensor(0)}, attributes);
}

/// Pads from the last dimension on, pairs of before and behind; fewer than none cuts off.
OnnxValue padded(const Operation& o) {
  const Integers pairs = o.integers(1);
  const size_t dimensions = o.shape(0).size();
  Integers padding(2 * dimensions, 0);
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    padding[dimensions - 1 - i] = pairs[2 * i];
    padding[2 * dimensions - 1 - i] = pairs[2 * i + 1];
  }
  return o.graph.add("Pad", {o.tensor(0), o.graph.integers(padding), o.graph.number(o.real(2), o.type(0))});
}

/// Repeats rows and columns: by ONNX's own operation where each comes as often as any other, else by their numbers, of
/// which libtorch and ONNX compute different ones.   input, size, then a scale of rows and one of columns
OnnxValue upsampled(const Operation& o) {
  const Upsampling upsampling(o);
  if (upsampling.is_even())
    return o.graph.add(
        "Resize", {o.tensor(0), "", "", o.graph.integers(o.result_shape())},
        {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
  OnnxValue x = o.tensor(0);
  for (const int64_t axis : {2, 3})
    x = o.graph.add("Gather", {x, o.graph.constant(upsampling.places(static_cast<size_t>(axis)))}, {{"axis", axis}});
  return x;
}

OnnxValue sliced(const Operation& o) {
  return o.graph.slice(o.tensor(0), o.axis(0, o.integer(1)), o.given(2) ? o.integer(2) : 0,
                       o.given(3) ? o.integer(3) : std::numeric_limits<int64_t>::max(), o.integer(4));
}

OnnxValue stacked(const Operation& o) {
  const auto dimensions = static_cast<int64_t>(o.result_shape().size());
  const int64_t axis = at::maybe_wrap_dim(o.integer(1), dimensions);
  std::vector<OnnxValue> parts;
  for (const OnnxValue& part : o.tensors_of_one_type(0)) parts.push_back(o.graph.unsqueeze(part, axis));
  return o.graph.concat(parts, axis);
}

/// How many of the sorted numbers of argument 0 are less than each of argument 1.
OnnxValue places_in_order(const Operation& o) {
  o.expect(2, "a result of int32", false);
  o.expect(3, "places behind equal numbers", false);
  o.expect(4, "a side", "left");
  o.expect(5, "an order of its own");
  if (o.shape(0).size() != 1) throw o.refused("several rows of sorted numbers");
  const OnnxValue less =
      o.graph.add("Less", {o.tensor(0), o.graph.unsqueeze(o.tensor(1), static_cast<int64_t>(o.shape(1).size()))});
  return o.graph.add("ReduceSum", {o.graph.cast(less, at::kLong), o.graph.integers({-1})}, {{"keepdims", 0}});
}

OnnxValue masked(const Operation& o) {
  return o.graph.add("Where", {o.tensor(1), o.operand(2, o.result_type()), o.tensor(0)});
}

OnnxValue chosen(const Operation& o) {
  return o.graph.add("Where", {o.tensor(0), o.operand(1, o.result_type()), o.operand(2, o.result_type())});
}

/// The same numbers, of another type perhaps.
OnnxValue as_type(const Operation& o) { return o.operand(0, o.result_type()); }

OnnxValue reshaped(const Operation& o) { return o.graph.reshape(o.tensor(0), o.result_shape()); }

OnnxValue filled(const Operation& o, double value) {
  return o.graph.add("Expand", {o.graph.number(value, o.result_type()), o.graph.integers(o.result_shape())});
}

/// How each operation of libtorch is written, by its name without the mark of those that work in place.
const std::map<std::string_view, OnnxRule>& rules() {
  static const std::map<std::string_view, OnnxRule> result{
      {"_convolution", convolution},
      {"batch_norm", batch_norm},
      {"max_pool2d", max_pool},
      {"avg_pool2d", average_pool},
      {"mean", mean},
      {"upsample_nearest2d", upsampled},
      {"constant_pad_nd", padded},
      // activations
      {"relu", [](const Operation& o) { return o.elementwise("Relu"); }},
      {"sigmoid", [](const Operation& o) { return o.elementwise("Sigmoid"); }},
      {"silu",
       [](const Operation& o) {
         return o.graph.add("Mul", {o.tensor(0), o.elementwise("Sigmoid")});
       }},
      {"hardtanh", [](const Operation& o) { return clamped(o, 1, 2); }},
      {"hardswish",
       [](const Operation& o) {
         return o.graph.add(
             "Mul", {o.tensor(0), o.graph.add("HardSigmoid", {o.tensor(0)}, {{"alpha", 1. / 6}, {"beta", 0.5}})});
       }},
      {"hardsigmoid",
       [](const Operation& o) {
         return o.graph.add("HardSigmoid", {o.tensor(0)}, {{"alpha", 1. / 6}, {"beta", 0.5}});
       }},
      {"softmax",
       [](const Operation& o) {
         o.expect(2, "another type");
         return o.graph.add("Softmax", {o.tensor(0)}, {{"axis", o.axis(0, o.integer(1))}});
       }},
      // arithmetic
      {"add", [](const Operation& o) { return sum(o, "Add"); }},
      {"sub", [](const Operation& o) { return sum(o, "Sub"); }},
      {"rsub",
       [](const Operation& o) {
         o.expect(2, "a factor", 1);
         return o.graph.add("Sub", {o.operand(1, o.result_type()), o.operand(0, o.result_type())});
       }},
      {"mul", [](const Operation& o) { return o.arithmetic("Mul"); }},
      {"div",
       [](const Operation& o) {
         o.expect(2, "rounding");
         return o.arithmetic("Div");
       }},
      {"exp", [](const Operation& o) { return o.elementwise("Exp"); }},
      {"square",
       [](const Operation& o) {
         return o.graph.add("Mul", {o.tensor(0), o.tensor(0)});
       }},
      {"minimum", [](const Operation& o) { return o.arithmetic("Min"); }},
      {"maximum", [](const Operation& o) { return o.arithmetic("Max"); }},
      {"clamp", [](const Operation& o) { return clamped(o, 1, 2); }},
      {"clamp_min", [](const Operation& o) { return clamped(o, 1, std::nullopt); }},
      {"clamp_max", [](const Operation& o) { return clamped(o, std::nullopt, 1); }},
      {"fake_quantize_per_channel_affine", rounded_to_numbers_by_channels},
      {"fake_quantize_per_tensor_affine", rounded_to_numbers},
      {"lt", [](const Operation& o) { return o.comparison("Less"); }},
      {"gt", [](const Operation& o) { return o.comparison("Greater"); }},
      {"logical_and",
       [](const Operation& o) {
         return o.graph.add("And", {o.operand(0, at::kBool), o.operand(1, at::kBool)});
       }},
      {"logical_not", [](const Operation& o) { return o.graph.add("Not", {o.operand(0, at::kBool)}); }},
      {"where", chosen},
      {"masked_fill", masked},
      {"searchsorted", places_in_order},
      {"empty_like", [](const Operation& o) { return filled(o, 0); }},
      {"fill", [](const Operation& o) { return filled(o, o.real(1)); }},
      {"full_like", [](const Operation& o) { return filled(o, o.real(1)); }},
      // where things lie
      {"cat", [](const Operation& o) { return o.graph.concat(o.tensors_of_one_type(0), o.integer(1)); }},
      {"stack", stacked},
      {"permute",
       [](const Operation& o) {
         Integers order = o.integers(1);
         for (int64_t& axis : order) axis = o.axis(0, axis);
         return o.graph.add("Transpose", {o.tensor(0)}, {{"perm", order}});
       }},
      {"reshape", reshaped},
      {"view", reshaped},
      {"unsqueeze", reshaped},
      {"squeeze", reshaped},
      {"flatten", reshaped},
      {"expand",
       [](const Operation& o) {
         return o.graph.add("Expand", {o.tensor(0), o.graph.integers(o.result_shape())});
       }},
      {"select", [](const Operation& o) { return o.graph.select(o.tensor(0), o.axis(0, o.integer(1)), o.integer(2)); }},
      {"slice", sliced},
      {"narrow",
       [](const Operation& o) {
         return o.graph.slice(o.tensor(0), o.axis(0, o.integer(1)), o.integer(2), o.integer(2) + o.integer(3));
       }},
      {"take",
       [](const Operation& o) {
         return o.graph.add("Gather", {o.graph.reshape(o.tensor(0), {-1}), o.tensor(1)});
       }},
      {"to", as_type},
      {"contiguous", as_type},
      {"clone", as_type},
      {"detach", as_type},
  };
  return result;
}

}  // namespace

OnnxRule onnx_rule(std::string_view operation) { return rule_in(rules(), operation); }

std::vector<std::string_view> onnx_rules() { return names_in(rules()); }

}  // namespace osprey
