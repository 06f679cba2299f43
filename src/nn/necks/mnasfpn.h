#pragma once
#include <array>
#include <memory>
#include <string>

#include "osprey/nn/neck.h"

namespace osprey::nn {

struct MnasfpnOptions {
  std::array<std::string, 3> endpoints;  ///< of the backbone, levels 3, 4 and 5; level 6 is made here
  int64_t depth = 48;                    ///< channels of every level, before the multiplier
  double depth_multiplier = 1;
  int64_t min_depth = 16;
  bool use_explicit_padding = false;
  bool freeze_batch_norm = false;
};

/// Four equal cells that a search has found. Has convolutions, batch norm and penalties with constants of its own.
/// source  Chen et al., "MnasFPN: Learning Latency-aware Pyramid Architecture for Object Detection on Mobile Devices",
///         CVPR 2020, figure 7
/// The detectors with this neck have one set of constants for the neck and the backbone below it, whatever
/// `conv_hyperparams` says; only the weight of the penalty differs.
/// l2  of that penalty
Hyperparams mnasfpn_hyperparams(double l2, bool freeze_batch_norm);

std::unique_ptr<Neck> make_mnasfpn_neck(const MnasfpnOptions& options, const Backbone& backbone);

}  // namespace osprey::nn
