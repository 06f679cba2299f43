#pragma once
#include <vector>

#include "export/tflite/graph.h"
#include "export/written_network.h"

namespace osprey::tflite {

/// One operation of the network, and the graph that it is written into.
class Operation : public WrittenNode<Graph> {
 public:
  using WrittenNode::WrittenNode;

  /// Whether nothing but this operation reads argument i, also by another name.
  bool alone_reads(size_t i) const;

  /// Argument i as the other arguments of its result see it: a constant or a number as one of the file, a map where the
  /// result is to be one.
  Value operand(size_t i, bool as_map) const;
  /// Argument i with its dimensions in the network's order.
  Value plain(size_t i) const;
  /// Argument i, of four dimensions, as a map.
  Value map(size_t i) const;

  /// The shape of the result in the file.
  Shape written_shape(bool is_map) const { return is_map ? channels_last(result_shape()) : result_shape(); }
  /// Dimension `dimension` of a value as the file has it.
  static int32_t written_axis(const Value& value, int64_t dimension);

  /// Whether any of the first two arguments is a map.
  bool has_map() const;
  /// Elementwise, of arguments `first` and `second`.
  template <class Options = BuiltinOptionsUnion>
  Value arithmetic(BuiltinOperator operation, size_t first = 0, size_t second = 1, const Options& options = {}) const {
    const bool as_map = has_map();
    return graph.add(operation, {operand(first, as_map), operand(second, as_map)}, written_shape(as_map), options);
  }
  /// Elementwise, of argument 0.
  Value elementwise(BuiltinOperator operation) const {
    const Value x = tensor(0);
    return graph.add(operation, {x}, written_shape(x.is_map));
  }

  std::vector<Value> unbound() const;
};

}  // namespace osprey::tflite
