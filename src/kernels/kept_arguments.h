#pragma once
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/window_of.h"

/// Epilogues, windows and sums over replicas, as a node of a graph of gradients keeps them.
namespace osprey::kernels {

/// name  of the epilogue, where there are several
inline void keep(torch::autograd::AutogradContext* context, const Epilogue& epilogue, const std::string& name = {}) {
  context->saved_data[name + "range"] = std::vector<double>{epilogue.low, epilogue.high};
  context->saved_data[name + "curve"] = static_cast<int64_t>(epilogue.curve);
}

inline Epilogue kept_epilogue(torch::autograd::AutogradContext* context, const std::string& name = {}) {
  const auto range = context->saved_data[name + "range"].toDoubleVector();
  return epilogue_of(range[0], range[1], context->saved_data[name + "curve"].toInt());
}

inline void keep(torch::autograd::AutogradContext* context, const SlidingWindow& window) {
  context->saved_data["stride"] = window.stride;
  context->saved_data["padding"] = std::vector<int64_t>(window.padding.begin(), window.padding.end());
}

inline SlidingWindow kept_window(torch::autograd::AutogradContext* context) {
  return window_of(context->saved_data["stride"].toInt(), context->saved_data["padding"].toIntVector());
}

class KeptSum : public torch::CustomClassHolder {
 public:
  explicit KeptSum(std::shared_ptr<const ReplicaSum> sum) : over(std::move(sum)) {}
  std::shared_ptr<const ReplicaSum> over;
};

inline void keep(torch::autograd::AutogradContext* context, const std::shared_ptr<const ReplicaSum>& over) {
  context->saved_data["over"] = c10::IValue::make_capsule(c10::make_intrusive<KeptSum>(over));
}

inline std::shared_ptr<const ReplicaSum> kept_sum(torch::autograd::AutogradContext* context) {
  return static_cast<const KeptSum&>(*context->saved_data["over"].toCapsule()).over;
}

}  // namespace osprey::kernels
