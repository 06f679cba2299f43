#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

/// Updates of optimizers that read and write each number once, over all parameters together. All throw c10::Error where
/// a gradient or a slot has another shape or type than its parameter; a gradient may have another layout.
namespace osprey::kernels {

/// The parameters of one update, their gradients, and what the optimizer keeps of each; all in the same order.
struct ParameterLists {
  const std::vector<at::Tensor>& values;
  const std::vector<at::Tensor>& gradients;
  std::vector<std::vector<at::Tensor>> slots = {};  ///< one list per slot; of the values' shapes and layouts
};

/// Whether the updates below take these parameters: float32 on the CPU, without holes.
bool fuses_update(const std::vector<at::Tensor>& values);

/// a <- momentum a + gradient_factor g,  w <- w + value_factor a. One slot: a.
void momentum_update(const ParameterLists& lists, double momentum, double gradient_factor, double value_factor);

struct RmsPropUpdate {
  double rho, momentum, rate, epsilon;
  bool epsilon_outside;  ///< of the root
};
/// s <- rho s + (1 - rho) g^2,  a <- momentum a + rate g / sqrt(s + epsilon),  w <- w - a. Slots: s, a.
void rms_prop_update(const ParameterLists& lists, const RmsPropUpdate& update);

struct AdamUpdate {
  double beta1, beta2, rate, epsilon;
};
/// m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  w <- w - rate m / (sqrt(v) + epsilon). Slots: m, v.
void adam_update(const ParameterLists& lists, const AdamUpdate& update);

}  // namespace osprey::kernels
