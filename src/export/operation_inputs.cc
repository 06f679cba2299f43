#include "export/operation_inputs.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>

namespace osprey {
namespace {

/// Whose inputs are noted, and where.
struct Watched {
  const std::string& operation;
  std::vector<MapInput> seen = {};
};

thread_local Watched* watched = nullptr;

std::unique_ptr<at::ObserverContext> note_input(const at::RecordFunction& function) {
  if (watched == nullptr || watched->operation != function.name()) return nullptr;
  // Called by the interpreter, an operation has its arguments at the end of a stack.
  const size_t count = function.operator_schema()->arguments().size();
  const at::Tensor& input = function.inputs().slice(function.inputs().size() - count)[0].toTensor();
  watched->seen.push_back(
      {input.sizes().vec(), input.dim() == 4 && input.is_contiguous(at::MemoryFormat::ChannelsLast)});
  return nullptr;
}

/// Notes the inputs of operations of this thread as long as it lives.
class InputWatch {
 public:
  explicit InputWatch(Watched& notes)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(note_input).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    watched = &notes;
  }
  ~InputWatch() {
    at::removeCallback(handle_);
    watched = nullptr;
  }
  InputWatch(const InputWatch&) = delete;
  InputWatch& operator=(const InputWatch&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::vector<MapInput> inputs_of(torch::jit::Graph& graph, const std::string& operation, torch::jit::Stack arguments) {
  Watched notes{operation};
  const InputWatch watch(notes);
  torch::jit::InterpreterState(torch::jit::Code(graph.copy(), "network")).run(arguments);
  return notes.seen;
}

}  // namespace osprey
