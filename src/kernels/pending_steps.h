#pragma once
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/if_defined.h"
#include "kernels/maps.h"
#include "osprey/kernels/pending_map.h"

/// Pending maps as operators get them: in pieces.
namespace osprey::kernels {

/// Throws c10::Error where the statistics and parameters are not those of the channels of x.
inline PendingMap pending_map(const at::Tensor& x, const std::optional<at::Tensor>& mean,
                              const std::optional<at::Tensor>& inverse_deviation,
                              const std::optional<at::Tensor>& gamma, const std::optional<at::Tensor>& beta, double low,
                              double high, int64_t curve) {
  const PendingMap map{x,
                       or_none(mean),
                       or_none(inverse_deviation),
                       or_none(gamma),
                       or_none(beta),
                       mean ? epilogue_of(low, high, curve) : Epilogue{}};
  TORCH_CHECK(map.mean.defined() == map.inverse_deviation.defined(),
              "expected means and inverse deviations, or neither");
  check_channels(x, map.mean, "means");
  check_channels(x, map.inverse_deviation, "inverse deviations");
  check_channels(x, map.gamma, "scales");
  check_channels(x, map.beta, "shifts");
  return map;
}

/// Several of them, all of the same parts: lists that are empty are of parts that none of the maps has.
inline std::vector<PendingMap> pending_maps(at::TensorList x, at::TensorList mean, at::TensorList inverse_deviation,
                                            at::TensorList gamma, at::TensorList beta, double low, double high,
                                            int64_t curve) {
  TORCH_CHECK(!x.empty(), "expected maps, got none");
  for (const at::TensorList& parts : {mean, inverse_deviation, gamma, beta})
    TORCH_CHECK(parts.empty() || parts.size() == x.size(), "expected statistics and parameters of ", x.size(),
                " maps or of none, got ", parts.size());
  std::vector<PendingMap> result;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto part = [i](at::TensorList parts) { return parts.empty() ? std::nullopt : std::optional(parts[i]); };
    result.push_back(pending_map(x[i], part(mean), part(inverse_deviation), part(gamma), part(beta), low, high, curve));
    TORCH_CHECK(x[i].scalar_type() == x[0].scalar_type() && x[i].device() == x[0].device(),
                "expected maps of one kind, got ", x[0].toString(), " and ", x[i].toString());
  }
  return result;
}

/// What is pending, if anything is.
inline std::optional<Affine> affine_of(const PendingMap& map) {
  if (!map.mean.defined()) return std::nullopt;
  return Affine(map.x, map.gamma, map.beta, map.mean, map.inverse_deviation, map.epilogue);
}

/// The same of a map that is going to be read; it becomes such as passes over it take it.
inline std::optional<Affine> prepare(PendingMap& map) {
  map.x = channels_last(map.x);
  check_normalizable(map.x);
  return affine_of(map);
}

/// The curve of a sum, as operators get it.
constexpr auto kClamp = static_cast<int64_t>(Epilogue::Curve::kClamp);

/// Throws c10::Error where what is pending cannot be a part of a sum.
inline void check_clamps(const Epilogue& epilogue) {
  TORCH_CHECK(epilogue.curve == Epilogue::Curve::kClamp, "a sum is clamped or nothing");
}

/// What the gradient of a sum has to be multiplied with to be that of the map before its batch norm: [C] float32.
inline at::Tensor scale_of(const PendingMap& map) {
  return map.gamma.defined() ? map.gamma * map.inverse_deviation : map.inverse_deviation;
}

/// The gradient of x, from those of a sum.
inline at::Tensor gradient_of_x(const PendingSumGradients& of, const PendingMap& map) {
  return (of.addend * scale_of(map).view({1, -1, 1, 1})).to(map.x.scalar_type());
}

/// The map as the passes over it take it, and what is pending of it: where nothing is, a batch norm that changes
/// nothing.
struct ReadMap {
  explicit ReadMap(PendingMap map) {
    if (!map.mean.defined()) {
      map.mean = at::zeros({map.x.size(1)}, map.x.options().dtype(at::kFloat));
      map.inverse_deviation = at::ones_like(map.mean);
    }
    affine = prepare(map);
    x = map.x;
  }
  at::Tensor x;
  std::optional<Affine> affine;  ///< has a value
};

}  // namespace osprey::kernels
