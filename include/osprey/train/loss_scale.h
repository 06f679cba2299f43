#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osprey/optim/named_tensors.h"

namespace osprey::train {

/// How gradients of float16 are kept from vanishing: the loss is multiplied by a number before backward, and the
/// gradients are divided by it after. A step in which they overflow is left out.
struct LossScaleOptions {
  double initial = 32768;          ///< > 0
  bool dynamic = true;             ///< halves after an overflow, doubles after so many steps without
  int64_t growth_interval = 2000;  ///< steps, >= 1
};

/// The scale of a run. Everything lies and happens on the device: nobody waits for it.
/// source  Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2
class LossScale {
 public:
  LossScale(const LossScaleOptions& options, const at::Device& device);

  /// Scalar float32.
  const at::Tensor& value() const { return scale_; }

  /// A scale becomes no smaller than this. (Below 1, since what is scaled is the sum over a batch.)
  static constexpr double kLeast = 1.0 / (1 << 16);

  /// What a step that is not finite means: scalar bool, whether a smaller scale may cure it. One that is fixed, or down
  /// at the least, cannot become smaller.
  at::Tensor can_shrink() const;

  /// After a step.
  /// finite   scalar bool: whether its gradients were
  /// healthy  scalar bool: false, nothing is changed any more
  void update(const at::Tensor& finite, const at::Tensor& healthy);

  /// What the next step depends on; live, as the state of an optimizer.
  optim::NamedTensors state() const { return {{"scale", scale_}, {"steps_without_overflow", steady_}}; }

 private:
  LossScaleOptions options_;
  at::Tensor scale_, steady_;
};

}  // namespace osprey::train
