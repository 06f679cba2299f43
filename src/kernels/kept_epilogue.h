#pragma once
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "kernels/batch_norm_steps.h"

/// An epilogue, as a node of a graph of gradients keeps it.
namespace osprey::kernels {

inline void keep(torch::autograd::AutogradContext* context, const Epilogue& epilogue) {
  context->saved_data["range"] = std::vector<double>{epilogue.low, epilogue.high};
  context->saved_data["curve"] = static_cast<int64_t>(epilogue.curve);
}

inline Epilogue kept_epilogue(torch::autograd::AutogradContext* context) {
  const auto range = context->saved_data["range"].toDoubleVector();
  return epilogue_of(range[0], range[1], context->saved_data["curve"].toInt());
}

}  // namespace osprey::kernels
