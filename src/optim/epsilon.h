#pragma once
#include <fmt/format.h>

#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// The `epsilon` of an optimizer's message; Keras takes its own default in the place of 0.
/// throws  ConfigError for a negative one
template <class Config>
double epsilon_of(const Config& cfg, Arithmetic arithmetic) {
  const double epsilon = cfg->epsilon();
  if (!(epsilon >= 0)) cfg.fail("epsilon", fmt::format("must be >= 0, got {}", epsilon));
  return epsilon == 0 && arithmetic == Arithmetic::kTf2 ? 1e-7 : epsilon;
}

}  // namespace osprey::optim
