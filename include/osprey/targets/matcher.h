#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/config/registry.h"
#include "osprey/kernels/match_anchors.h"

namespace osprey::targets {

/// Decides from similarities which real box each anchor belongs to. Build one with `build_matcher` (targets/builder.h).
class Matcher {
 public:
  using Registry = config::Registry<Matcher>;
  virtual ~Matcher() = default;

  /// similarity  [M, A] float32, of one image; M may be 0: then all anchors are background
  /// enabled     [M] bool; a row that is not claims no anchor for itself (but arg-max still sees it); undefined: all
  /// returns     [A] int64 on the CPU: row, Match::kBackground or Match::kIgnore
  virtual at::Tensor match(const at::Tensor& similarity, const at::Tensor& enabled = {}) const = 0;

  /// The options of the arg-max matcher; nullptr for every other. With IoU the assigner then takes the fused path.
  virtual const kernels::MatchOptions* argmax_options() const { return nullptr; }
};

}  // namespace osprey::targets
