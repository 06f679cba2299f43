#pragma once
#include <ATen/core/grad_mode.h>

#include <optional>

#include "osprey/nn/backbone.h"

namespace osprey::nn {

/// Layers of a backbone behind the last map that is wanted. Nothing depends on them, but some networks of slim go on
/// updating their moving averages, which checkpoints hold: in training they run then, without gradients.
class UnusedLayers {
 public:
  UnusedLayers(const Hyperparams& hyperparams, const BackboneOptions& options)
      : have_averages_(!options.keras && hyperparams.batch_norm && hyperparams.batch_norm->train) {}

  /// Of one forward pass.
  class Pass {
   public:
    explicit Pass(bool run_unused) : run_unused_(run_unused) {}
    /// Whether the next layer runs, which is `wanted` or not; those behind one that is not wanted are not, either.
    bool runs(bool wanted) {
      if (!wanted && run_unused_ && !without_gradients_) without_gradients_.emplace();
      return wanted || run_unused_;
    }

   private:
    bool run_unused_;
    std::optional<at::NoGradGuard> without_gradients_;
  };
  Pass pass(bool training) const { return Pass(have_averages_ && training); }

 private:
  bool have_averages_;
};

}  // namespace osprey::nn
