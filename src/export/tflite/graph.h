#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tflite_schema_generated.h"

namespace osprey::tflite {

using Shape = std::vector<int64_t>;

/// The same lengths or amounts with those of the channels, the second, behind the others.
Shape channels_last(const Shape& of_map);

/// A value of a graph, by the number of its tensor.
struct Value {
  int32_t tensor = -1;
  bool is_map = false;  ///< of four dimensions, of which the network's second, the channels, is the last one here
};

/// How numbers stand for values: value = scale * (number - zero).
struct Steps {
  std::vector<float> scales;  ///< one, or one for each element of `axis`
  int64_t zero = 0;
  int32_t axis = 0;
  bool operator==(const Steps&) const = default;
};

constexpr int64_t kSigned = 128;  ///< what is subtracted from a number of uint8 to make one of int8 of it

/// A file for TensorFlow Lite in the making.
///
///     Graph graph("halves");
///     const Value x = graph.input("x", {1, 8});
///     graph.output("half", graph.add(BuiltinOperator_MUL, {x, graph.number(0.5)}, {1, 8}, MulOptionsT()));
///     write_whole("halves.tflite", graph.file());
///
/// Values are float32 unless they are made others, shapes are those of the file.
class Graph {
 public:
  using Value = tflite::Value;

  explicit Graph(const char* name);

  /// The bytes of the file, without operations whose results nobody reads.
  /// throws  ConfigError for more than a GiB; a file can hold two, of which runtimes need some
  std::string file() const;

  Value input(const char* name, const Shape& shape);
  /// Gives a value a name and makes it an output of the graph; of one that has a name already, a copy.
  void output(const char* name, const Value& value);

  /// A constant: float32, int32, uint8 or int8. A tensor that was given before is the same constant again.
  Value constant(const at::Tensor& value);
  /// The numbers of a constant that stand for values.
  Value constant(const at::Tensor& numbers, const Steps& steps);
  Value number(double value);  ///< a constant of no dimension
  /// Constants of int32, such as axes and sizes.
  Value integers(const Shape& values);

  /// The one result of a new operation; it is a map where the first input is one.
  Value add(BuiltinOperator operation, const std::vector<Value>& inputs, const Shape& shape,
            const BuiltinOptionsUnion& options = {});
  template <class Options>  // one of the schema's, as OptionsT
  Value add(BuiltinOperator operation, const std::vector<Value>& inputs, const Shape& shape, const Options& options) {
    BuiltinOptionsUnion any;
    any.Set(Options(options));
    return add(operation, inputs, shape, any);
  }
  /// Results of an operation that the format does not know itself, by its name; options as FlexBuffers.
  std::vector<Value> add_custom(const char* operation, const std::vector<Value>& inputs,
                                const std::vector<Shape>& shapes, const std::vector<uint8_t>& options);

  /// Bytes that the file holds beside the graph, under a name.
  void add_metadata(const char* name, const std::string& bytes);

  /// Lets the operation that made a value activate it, too.
  /// returns  whether it can
  bool activate(const Value& value, Activation activation);

  /// The operation that made a value; null of inputs and constants.
  OperatorT* maker(const Value& value) const;
  BuiltinOperator kind(const OperatorT& made) const { return model_.operator_codes[made.opcode_index]->builtin_code; }
  /// Puts the operation that made a value behind all others.
  void move_to_end(const Value& value);

  Shape shape(const Value& value) const { return {described(value).shape.begin(), described(value).shape.end()}; }
  bool is_constant(const Value& value) const { return constants_.contains(value.tensor); }
  /// The elements of a constant.
  at::Tensor elements(int32_t constant) const { return constants_.at(constant); }

  // What is rounded. A graph has numbers of one type beside its weights.

  TensorType type_of_numbers() const { return type_of_numbers_; }
  void set_type_of_numbers(TensorType type) { type_of_numbers_ = type; }
  /// Makes a value one of numbers.
  void set_steps(const Value& value, TensorType type, const Steps& steps);
  TensorType type(const Value& value) const { return described(value).type; }
  /// Of a value of numbers.
  Steps steps(const Value& value) const;
  /// The numbers that were made for a value whose maker only moves values; none before the first `note_moved`.
  std::optional<Value> moved(const Value& value) const;
  void note_moved(const Value& value, const Value& numbers) { moved_[value.tensor] = numbers; }

 private:
  static size_t index(const Value& value) { return static_cast<size_t>(value.tensor); }
  const TensorT& described(const Value& value) const { return *subgraph().tensors[index(value)]; }
  SubGraphT& subgraph() { return *model_.subgraphs.front(); }
  const SubGraphT& subgraph() const { return *model_.subgraphs.front(); }
  uint32_t add_buffer(const void* bytes, size_t size);
  int32_t add_tensor(const Shape& shape, TensorType type, const std::string& name);
  OperatorT& add_operator(BuiltinOperator operation, const char* custom, const std::vector<Value>& inputs,
                          const std::vector<int32_t>& outputs);

  ModelT model_;
  TensorType type_of_numbers_ = TensorType_UINT8;
  std::map<std::pair<BuiltinOperator, std::string>, uint32_t> codes_;
  std::map<int32_t, OperatorT*> makers_;     ///< of tensors
  std::map<int32_t, Value> moved_;           ///< numbers, by the tensors of values
  std::map<int32_t, at::Tensor> constants_;  ///< by their tensors; kept, so that no other gets the memory of one
  /// By where and how they lie in memory.
  std::map<std::tuple<const void*, Shape, Shape, at::ScalarType>, Value> known_;
};

}  // namespace osprey::tflite
