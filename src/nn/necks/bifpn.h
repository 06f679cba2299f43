#pragma once
#include <memory>
#include <string>
#include <vector>

#include "osprey/nn/neck.h"
#include "osprey/nn/weighted_fusion.h"

namespace osprey::nn {

struct BifpnOptions {
  int64_t min_level = 3, max_level = 7;  ///< level l has 2^l pixels per cell
  std::vector<std::string> endpoints;    ///< of the backbone, from min_level up; levels above them are pooled
  int64_t iterations = 3;                ///< times down and up
  int64_t depth = 64;                    ///< channels of every level
  FusionMethod method = FusionMethod::kFastAttention;
};

/// Feature maps that are fused top-down and bottom-up several times.
/// source  Tan et al., "EfficientDet: Scalable and Efficient Object Detection", CVPR 2020, section 3.2
std::unique_ptr<Neck> make_bifpn_neck(const BifpnOptions& options, const Backbone& backbone,
                                      const Hyperparams& hyperparams);

/// Keras name, within its pyramid, of one of the variables: node_02.1_dn_lvl_6.post_combine.biases ->
/// node_02/1_dn_lvl_6/post_combine/separable_conv/bias.
std::string bifpn_keras_name(const std::string& name);

}  // namespace osprey::nn
