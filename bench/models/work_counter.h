#pragma once
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace osprey {

/// What a roofline is drawn from; Williams et al., "Roofline: An Insightful Visual Performance Model", CACM 2009.
struct Work {
  double operations = 0;  ///< of convolutions: a multiplication and its addition are two
  double bytes = 0;       ///< through memory, if each operator reads what it is given and writes what it makes once
};

/// Adds up what operators do while it lives, on all threads: those that are called, not those that they call.
class WorkCounter {
 public:
  WorkCounter()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(before, after)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}))) {
    operations_ = bytes_ = 0;
  }
  ~WorkCounter() { at::removeCallback(handle_); }
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  Work sum() const { return {operations_, bytes_}; }

 private:
  /// Of one operator: what it was given.
  struct Call : at::ObserverContext {
    std::vector<at::Tensor> inputs, written;  ///< written: those of the inputs that it changes
    at::Tensor weights;                       ///< of a convolution
    std::vector<at::Tensor> gradients;        ///< of what it makes
    int64_t products = 0;                     ///< how many of the size of the convolution it makes
  };

  static void collect(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& one : value.toTensorVector())
        if (one.defined()) tensors.push_back(one);
  }
  static double size(const at::Tensor& tensor) {
    const auto own = static_cast<double>(tensor.nbytes());
    return tensor.has_storage() ? std::min(own, static_cast<double>(tensor.storage().nbytes())) : own;
  }
  static bool has(const std::vector<at::Tensor>& tensors, const at::Tensor& tensor) {
    return std::ranges::any_of(tensors, [&](const at::Tensor& one) { return one.is_alias_of(tensor); });
  }

  /// What is not an operator, but a node of the graph of gradients, which calls some.
  static bool is_node(const at::RecordFunction& function) {
    return std::string_view(function.name()).starts_with("autograd::");
  }

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
    if (is_node(function) || inside_++ > 0) return nullptr;
    auto call = std::make_unique<Call>();
    const auto inputs = function.inputs();
    for (const c10::IValue& value : inputs) collect(value, call->inputs);
    const auto schema = function.operator_schema();
    if (!schema) return call;
    for (size_t i = 0; i < std::min(inputs.size(), schema->arguments().size()); ++i)
      if (const auto* alias = schema->arguments()[i].alias_info(); alias != nullptr && alias->isWrite())
        collect(inputs[i], call->written);
    const std::string_view name = schema->name();
    if (name.find("::conv") == name.npos && name.find("_convolution") == name.npos) return call;
    const auto named = [&](const char* argument) {
      const auto index = schema->argumentIndexWithName(argument);
      return index ? inputs[static_cast<size_t>(*index)] : c10::IValue();
    };
    for (const char* one : {"weights", "weight"})
      if (const c10::IValue value = named(one); value.isTensor()) call->weights = value.toTensor();
    if (name == "osprey::normalized_convolution_backward") {
      collect(named("y"), call->gradients);
    } else {
      for (const char* one : {"gradients", "gradient_y", "grad_output"}) collect(named(one), call->gradients);
    }
    call->products = 1;
    if (const c10::IValue wanted = named("of_x"); wanted.isBool()) call->products = wanted.toBool() ? 2 : 1;
    if (const c10::IValue mask = named("output_mask"); mask.isBoolList())
      call->products = mask.toBoolList()[0] + mask.toBoolList()[1];
    return call;
  }

  static void after(const at::RecordFunction& function, at::ObserverContext* context) {
    if (is_node(function)) return;
    --inside_;
    const std::string_view name = function.name();
    if (context == nullptr || name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) return;
    const Call& call = *static_cast<Call*>(context);
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : function.outputs()) collect(value, outputs);
    std::erase_if(outputs, [&](const at::Tensor& one) { return has(call.inputs, one); });
    if (outputs.empty() && call.written.empty()) return;  // another view of the same numbers
    double bytes = 0;
    for (const auto* tensors : {&call.inputs, &call.written, &std::as_const(outputs)})
      for (const at::Tensor& one : *tensors) bytes += size(one);
    bytes_ += bytes;
    if (call.products == 0 || outputs.empty()) return;
    // Places of the result, each of which every weight has a part in; a weight gradient has the weights' size.
    std::vector<at::Tensor> maps = call.gradients;
    if (maps.empty()) collect(function.outputs()[0], maps);
    const at::Tensor& weights = call.weights.defined() ? call.weights : outputs[0];
    for (const at::Tensor& map : maps)
      operations_ += 2.0 * static_cast<double>(call.products * (map.numel() / map.size(1)) * weights.numel());
  }

  at::CallbackHandle handle_;
  inline static std::atomic<double> operations_ = 0, bytes_ = 0;
  inline static thread_local int inside_ = 0;  ///< how many of this thread's operators are open
};

}  // namespace osprey
