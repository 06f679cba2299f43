#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace osprey {

/// The version of ONNX's operators that is used.
constexpr int64_t kOnnxOpset = 13;

/// A value of an ONNX graph, by its name. Empty: an input that is left out.
using OnnxValue = std::string;

/// An ONNX file in the making.
///
///     OnnxGraph graph("halves");
///     const OnnxValue x = graph.input("x", at::kFloat, {"n"});
///     graph.output("half", graph.add("Mul", {x, graph.number(0.5)}), at::kFloat, {"n"});
///     write_whole("halves.onnx", graph.file());
///
/// Shapes, axes and indices are int64, as ONNX wants them.
class OnnxGraph {
 public:
  using Value = OnnxValue;
  using Attribute = std::variant<int64_t, double, const char*, std::vector<int64_t>>;
  using Attributes = std::vector<std::pair<const char*, Attribute>>;
  /// A length, or the name of one that differs from call to call.
  using Dimension = std::variant<int64_t, const char*>;

  explicit OnnxGraph(const char* name);
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  /// The bytes of the file, with which ONNX's own checker and its inference of types and shapes agree.
  /// throws  c10::Error with the words of the checker; ConfigError for more than the 2 GiB that a file can hold
  std::string file() const;

  /// An input of the graph.
  OnnxValue input(const char* name, at::ScalarType type, const std::vector<Dimension>& shape);
  /// Makes a value an output of the graph.
  void output(const char* name, const OnnxValue& value, at::ScalarType type, const std::vector<Dimension>& shape);

  /// A constant. A tensor that was given before is the same constant again.
  OnnxValue constant(const at::Tensor& value);
  OnnxValue integers(const std::vector<int64_t>& values);  ///< of one dimension
  OnnxValue integer(int64_t value);                        ///< of no dimension
  OnnxValue number(double value, at::ScalarType type = at::kFloat);

  /// The one result of a new node.
  OnnxValue add(const char* operation, const std::vector<OnnxValue>& inputs, const Attributes& attributes = {});
  /// All results of a node that has `count` of them.
  std::vector<OnnxValue> add(const char* operation, size_t count, const std::vector<OnnxValue>& inputs,
                             const Attributes& attributes = {});

  /// Dimension `axis` of a value, [].
  OnnxValue size(const OnnxValue& x, int64_t axis);
  OnnxValue cast(const OnnxValue& x, at::ScalarType type);
  OnnxValue reshape(const OnnxValue& x, const std::vector<int64_t>& shape);
  OnnxValue unsqueeze(const OnnxValue& x, int64_t axis);
  /// Elements [begin, end) of a dimension.
  OnnxValue slice(const OnnxValue& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  /// One element of a dimension, which goes.
  OnnxValue select(const OnnxValue& x, int64_t axis, int64_t index);
  OnnxValue concat(const std::vector<OnnxValue>& parts, int64_t axis);

 private:
  std::unique_ptr<onnx::ModelProto> model_;
  /// By where and how they lie in memory.
  std::map<std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, at::ScalarType>, OnnxValue> tensors_;
  std::vector<at::Tensor> kept_;            ///< so that no other tensor gets the memory of one that is known
  std::map<std::string, OnnxValue> small_;  ///< by their content
};

}  // namespace osprey
