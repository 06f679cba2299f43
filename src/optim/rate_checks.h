#pragma once
#include <fmt/format.h>

#include <cmath>

#include "osprey/config/node.h"

namespace osprey::optim {

/// A learning rate as a config gives it: finite and not negative.
inline float checked_rate(const config::Node& node, const char* field, float rate) {
  if (!(rate >= 0 && std::isfinite(rate))) node.fail(field, fmt::format("must be a finite number >= 0, got {}", rate));
  return rate;
}

}  // namespace osprey::optim
