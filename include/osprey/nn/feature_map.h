#pragma once
#include <optional>
#include <utility>

#include "osprey/kernels/pending_map.h"

namespace osprey::nn {

/// A feature map on its way from one layer to the next. Batch norm and activation of the convolution that made it may
/// still be pending: a convolution that can do them as it reads the map does, and whatever else needs the map asks for
/// its values.
class FeatureMap {
 public:
  FeatureMap(const at::Tensor& values) : map_{.x = values} {}  // NOLINT(google-explicit-constructor): it is one
  explicit FeatureMap(kernels::PendingMap pending) : map_(std::move(pending)) {}

  /// [B, C, H, W]; gradients flow to all that the map consists of.
  at::Tensor values() const { return kernels::pending_values(map_); }
  bool is_pending() const { return map_.mean.defined(); }
  const kernels::PendingMap& pending() const { return map_; }

 private:
  kernels::PendingMap map_;
};

/// What a residual unit makes, for the two ways through the next one. Whoever reads it once only takes either; of
/// the gradients of both, the sum is made as they are taken back.
struct ForkedMap {
  at::Tensor map, again;  ///< the same values, maybe in the same memory: neither may be written in place
  /// What the first layer of the next unit has made of it, where that was done in one with it.
  std::optional<FeatureMap> read{};
};

}  // namespace osprey::nn
