#pragma once
#include <optional>

#include "kernels/batch_norm_steps.h"
#include "kernels/if_defined.h"
#include "osprey/kernels/pending_map.h"

/// Pending maps as operators get them: in pieces.
namespace osprey::kernels {

inline PendingMap pending_map(const at::Tensor& x, const std::optional<at::Tensor>& mean,
                              const std::optional<at::Tensor>& inverse_deviation,
                              const std::optional<at::Tensor>& gamma, const std::optional<at::Tensor>& beta, double low,
                              double high, int64_t curve) {
  return {x,
          or_none(mean),
          or_none(inverse_deviation),
          or_none(gamma),
          or_none(beta),
          mean ? epilogue_of(low, high, curve) : Epilogue{}};
}

/// What is pending, if anything is. Throws c10::Error where there is not one statistic of each kind for each channel.
inline std::optional<Affine> affine_of(const PendingMap& map) {
  if (!map.mean.defined()) return std::nullopt;
  TORCH_CHECK(map.inverse_deviation.defined() && map.mean.sizes() == at::IntArrayRef{map.x.size(1)} &&
                  map.inverse_deviation.sizes() == map.mean.sizes(),
              "expected ", map.x.size(1), " means and inverse deviations");
  return Affine(map.x, map.gamma, map.beta, map.mean, map.inverse_deviation, map.epilogue);
}

}  // namespace osprey::kernels
