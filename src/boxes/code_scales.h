#pragma once
#include "boxes/center_coding.h"
#include "osprey/config/node.h"

namespace osprey::boxes {

/// throws ConfigError unless `value` > 0
inline float positive(const config::Node& cfg, const char* field, float value) {
  if (!(value > 0)) cfg.fail(field, "must be > 0, got " + std::to_string(value));
  return value;
}

/// The scales of a coder's message; throws ConfigError unless all are > 0.
template <class M>
CodeScales code_scales(const config::ConfigNode<M>& cfg) {
  return {.y = positive(cfg, "y_scale", cfg->y_scale()),
          .x = positive(cfg, "x_scale", cfg->x_scale()),
          .height = positive(cfg, "height_scale", cfg->height_scale()),
          .width = positive(cfg, "width_scale", cfg->width_scale())};
}

}  // namespace osprey::boxes
