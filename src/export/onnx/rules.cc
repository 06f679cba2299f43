#include "export/onnx/rules.h"

#include <ATen/ATen.h>

#include <limits>
#include <map>

#include "osprey/base/error.h"

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

OnnxValue clip(const Operation& o, const OnnxValue& low, const OnnxValue& high) {
  return o.graph.add("Clip", {o.tensor(0), low, high});
}

/// The same padding before and behind each dimension.
Integers on_both_sides(Integers padding) {
  padding.insert(padding.end(), {padding[0], padding[1]});
  return padding;
}

OnnxValue convolution(const Operation& o) {
  if (o.flag(6)) throw ConfigError("a transposed convolution");
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
  const auto of_channels = [&](size_t i, double otherwise) {
    return o.given(i) ? o.tensor(i) : o.graph.constant(at::full({o.shape(0)[1]}, otherwise));
  };
  return o.graph.add("BatchNormalization",
                     {o.tensor(0), of_channels(1, 1), of_channels(2, 0), o.tensor(3), o.tensor(4)},
                     {{"epsilon", o.real(7)}});
}

/// input, kernel_size, stride, padding, then what differs
OnnxValue pool(const Operation& o, const char* operation, OnnxGraph::Attributes attributes) {
  attributes.insert(attributes.end(), {{"kernel_shape", o.pair(1)},
                                       {"strides", o.pair(o.integers(2).empty() ? 1 : 2)},
                                       {"pads", on_both_sides(o.pair(3))}});
  return o.graph.add(operation, {o.tensor(0)}, attributes);
}

OnnxValue average_pool(const Operation& o) {
  if (o.given(6)) throw ConfigError("a pool with a divisor of its own");
  return pool(o, "AveragePool", {{"ceil_mode", int64_t{o.flag(4)}}, {"count_include_pad", int64_t{o.flag(5)}}});
}

OnnxValue mean(const Operation& o) {
  Integers axes = o.integers(1);
  for (int64_t& axis : axes) axis = o.axis(0, axis);
  return o.graph.add("ReduceMean", {o.tensor(0)}, {{"axes", axes}, {"keepdims", int64_t{o.flag(2)}}});
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
/// which libtorch and ONNX compute different ones.
OnnxValue upsampled(const Operation& o) {
  const Integers before = o.shape(0), after = o.result_shape();
  if (after[2] % before[2] == 0 && after[3] % before[3] == 0)
    return o.graph.add(
        "Resize", {o.tensor(0), "", "", o.graph.integers(after)},
        {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
  OnnxValue x = o.tensor(0);
  for (const int64_t axis : {2, 3}) {
    const at::Tensor places = at::arange(before[axis], at::kFloat).view({1, 1, -1});
    const at::Tensor chosen = at::upsample_nearest1d(places, {after[axis]}).flatten().to(at::kLong);
    x = o.graph.add("Gather", {x, o.graph.constant(chosen)}, {{"axis", axis}});
  }
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
  for (const OnnxValue& part : o.tensors(0)) parts.push_back(o.graph.unsqueeze(part, axis));
  return o.graph.concat(parts, axis);
}

/// How many of the sorted numbers of argument 0 are less than each of argument 1.
OnnxValue places_in_order(const Operation& o) {
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

OnnxValue limit_or_none(const Operation& o, size_t i) { return o.given(i) ? o.operand(i, o.result_type()) : ""; }

OnnxValue filled(const Operation& o, double value) {
  return o.graph.add("Expand", {o.graph.number(value, o.result_type()), o.graph.integers(o.result_shape())});
}

/// How each operation of libtorch is written, by its name without the mark of those that work in place.
const std::map<std::string_view, OnnxRule>& rules() {
  static const std::map<std::string_view, OnnxRule> result{
      {"_convolution", convolution},
      {"batch_norm", batch_norm},
      {"max_pool2d",
       [](const Operation& o) {
         return pool(o, "MaxPool", {{"dilations", o.pair(4)}, {"ceil_mode", int64_t{o.flag(5)}}});
       }},
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
      {"hardtanh", [](const Operation& o) { return clip(o, o.operand(1, o.type(0)), o.operand(2, o.type(0))); }},
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
         return o.graph.add("Softmax", {o.tensor(0)}, {{"axis", o.axis(0, o.integer(1))}});
       }},
      // arithmetic
      {"add", [](const Operation& o) { return sum(o, "Add"); }},
      {"sub", [](const Operation& o) { return sum(o, "Sub"); }},
      {"rsub",
       [](const Operation& o) {
         return o.graph.add("Sub", {o.operand(1, o.result_type()), o.operand(0, o.result_type())});
       }},
      {"mul", [](const Operation& o) { return o.arithmetic("Mul"); }},
      {"div", [](const Operation& o) { return o.arithmetic("Div"); }},
      {"exp", [](const Operation& o) { return o.elementwise("Exp"); }},
      {"square",
       [](const Operation& o) {
         return o.graph.add("Mul", {o.tensor(0), o.tensor(0)});
       }},
      {"minimum", [](const Operation& o) { return o.arithmetic("Min"); }},
      {"maximum", [](const Operation& o) { return o.arithmetic("Max"); }},
      {"clamp", [](const Operation& o) { return clip(o, limit_or_none(o, 1), limit_or_none(o, 2)); }},
      {"clamp_min", [](const Operation& o) { return clip(o, limit_or_none(o, 1), ""); }},
      {"lt", [](const Operation& o) { return o.comparison("Less"); }},
      {"gt", [](const Operation& o) { return o.comparison("Greater"); }},
      {"logical_and", [](const Operation& o) { return o.comparison("And"); }},
      {"logical_not", [](const Operation& o) { return o.elementwise("Not"); }},
      {"where", chosen},
      {"masked_fill", masked},
      {"searchsorted", places_in_order},
      {"empty_like", [](const Operation& o) { return filled(o, 0); }},
      {"fill", [](const Operation& o) { return filled(o, o.real(1)); }},
      {"full_like", [](const Operation& o) { return filled(o, o.real(1)); }},
      // where things lie
      {"cat", [](const Operation& o) { return o.graph.concat(o.tensors(0), o.integer(1)); }},
      {"stack", stacked},
      {"permute",
       [](const Operation& o) {
         return o.graph.add("Transpose", {o.tensor(0)}, {{"perm", o.integers(1)}});
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

OnnxRule onnx_rule(std::string_view operation) {
  if (operation.ends_with('_')) operation.remove_suffix(1);
  const auto found = rules().find(operation);
  return found == rules().end() ? nullptr : found->second;
}

std::vector<std::string_view> onnx_rules() {
  std::vector<std::string_view> result;
  for (const auto& [name, rule] : rules()) result.push_back(name);
  return result;
}

}  // namespace osprey
