#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <utility>

#include "kernels/device/launch.h"
#include "kernels/if_defined.h"

/// How the functions of this folder become operators of libtorch, `osprey::<name>`: whoever calls one, by the function
/// of its header or by name from anywhere, goes through the dispatcher.
namespace osprey::kernels {

namespace detail {

inline std::string name_of(const std::string& schema) { return schema.substr(0, schema.find('(')); }

/// Remembers where the first tensor of a call lies; the others have to lie there, too.
class OneDevice {
 public:
  explicit OneDevice(const std::string& operator_name) : name_(operator_name) {}
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!device_) device_ = tensor.device();
    TORCH_CHECK(tensor.device() == *device_, "osprey::", name_, " wants all tensors on one device, got ", *device_,
                " and ", tensor.device());
  }
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor) add(*tensor);
  }
  void add(at::TensorList list) {
    for (const at::Tensor& tensor : list) add(tensor);
  }
  template <class Number>
  void add(const Number&) {}

 private:
  const std::string& name_;
  std::optional<at::Device> device_;
};

/// `function`, called with tensors of one device only: a kernel would look for all of them where the first one lies.
template <class Result, class... Arguments>
auto on_one_device(std::string operator_name, Result (*function)(Arguments...)) {
  return torch::CppFunction([name = std::move(operator_name), function](Arguments... arguments) -> Result {
    OneDevice device(name);
    (device.add(arguments), ...);
    return function(std::forward<Arguments>(arguments)...);
  });
}

}  // namespace detail

/// Defines an operator. `function` checks the arguments, makes the results, and returns before it touches memory where
/// tensors are on the meta device.
template <class Function>
void define_for_cpus(torch::Library& library, const std::string& schema, Function* function) {
  library.def(schema.c_str());
  for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::Meta})
    library.impl(detail::name_of(schema).c_str(),
                 torch::dispatch(key, detail::on_one_device(detail::name_of(schema), function)));
}

/// The same of one that serves every device that we have code for.
template <class Function>
void define(torch::Library& library, const std::string& schema, Function* function) {
  define_for_cpus(library, schema, function);
  if (device::compiled())
    library.impl(detail::name_of(schema).c_str(),
                 torch::dispatch(c10::DispatchKey::CUDA, detail::on_one_device(detail::name_of(schema), function)));
}

/// The same with the function that makes a node of the graph of gradients.
template <class Function, class Differentiable>
void define(torch::Library& library, const std::string& schema, Function* function, Differentiable* differentiable) {
  define(library, schema, function);
  library.impl(detail::name_of(schema).c_str(),
               torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction(differentiable)));
}

/// The operator `osprey::<name>` with the signature of `function`.
template <class Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name, Function*) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("osprey::") + name).c_str(), "").typed<Function>();
}

/// Whether the operators take tensors of this device.
inline bool has_kernels(const at::Tensor& tensor) {
  return tensor.is_cpu() || tensor.is_meta() || (tensor.is_cuda() && device::compiled());
}

}  // namespace osprey::kernels
