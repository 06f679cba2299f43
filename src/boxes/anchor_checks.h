#pragma once
#include <string>
#include <vector>

#include "osprey/config/node.h"

/// Range checks that the anchor generators share. All throw ConfigError at the field.
namespace osprey::boxes {

/// A list of sizes or ratios: > 0 each, and not empty unless `may_be_empty`.
template <class Repeated>
std::vector<float> positive_list(const config::Node& cfg, const char* field, const Repeated& values,
                                 bool may_be_empty = false) {
  if (values.empty() && !may_be_empty) cfg.fail(field, "must name at least one value");
  for (float value : values)
    if (!(value > 0)) cfg.fail(field, "must be > 0, got " + std::to_string(value));
  return {values.begin(), values.end()};
}

inline float at_least_one(const config::Node& cfg, const char* field, int64_t value) {
  if (value < 1) cfg.fail(field, "must be >= 1, got " + std::to_string(value));
  return static_cast<float>(value);
}

}  // namespace osprey::boxes
