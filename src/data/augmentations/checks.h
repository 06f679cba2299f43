#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/data/combination.h"

namespace osprey::data {

/// Range checks that many augmentations share.
inline void check_probability(const config::Node& node, const char* field, float value) {
  if (!(value >= 0 && value <= 1)) node.fail(field, "must be in [0, 1], got " + std::to_string(value));
}
inline void check_at_least(const config::Node& node, const char* field, int64_t value, int64_t least) {
  if (value < least) node.fail(field, "must be >= " + std::to_string(least) + ", got " + std::to_string(value));
}
inline void check_range(const config::Node& node, const char* low_field, float low, const char* high_field, float high,
                        float least) {
  if (!(low >= least)) node.fail(low_field, "must be >= " + std::to_string(least) + ", got " + std::to_string(low));
  if (!(high >= low)) node.fail(high_field, "must be >= " + std::string(low_field));
}

/// When a step that takes several pictures does something.
template <class M>
Combination::Times times_of(const config::ConfigNode<M>& cfg) {
  check_probability(cfg, "probability", cfg->probability());
  return {cfg->probability(), static_cast<int64_t>(cfg->num_epochs())};
}

/// The colour of what is padded; empty: the picture's mean.
template <class M>
std::vector<float> pad_color(const config::ConfigNode<M>& cfg) {
  if (cfg->pad_color_size() != 0 && cfg->pad_color_size() != 3)
    cfg.fail("pad_color", "must have 3 values, or none for the mean");
  return {cfg->pad_color().begin(), cfg->pad_color().end()};
}

}  // namespace osprey::data
