#pragma once
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace osprey::kernels {

/// Throws c10::Error where a backward pass is to be differentiated itself (create_graph): the backward passes of our
/// nodes are not recorded, so what comes of them would silently lack its gradients.
/// name  of the operation that is being taken back
inline void refuse_second_derivative(const char* name) {
  TORCH_CHECK(!at::GradMode::is_enabled(), name, " has no second derivative (create_graph)");
}

}  // namespace osprey::kernels
