#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "osprey/nn/backbone.h"

namespace osprey::nn {

/// Makes the feature maps that predictions are made from out of those of a backbone. Its layers live in the backbone's
/// scope.
class Neck : public torch::nn::Module {
 public:
  /// Finest first.
  virtual std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context& context) = 0;
  /// The endpoints that `forward` reads.
  virtual std::set<std::string> endpoints() const = 0;
  /// Channels of each feature map.
  virtual std::vector<int64_t> depths() const = 0;
};

/// SSD's maps: some are endpoints of the backbone, each further one halves the one before by a 1x1 convolution and a
/// convolution of stride 2.
/// source  Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, section 2.1
struct MultiResolutionOptions {
  struct Map {
    std::string from;    ///< endpoint of the backbone; empty: made from the map before
    int64_t depth = 0;   ///< channels of a new map, before the multiplier
    int64_t kernel = 3;  ///< of the convolution of stride 2
  };
  std::vector<Map> maps;
  double depth_multiplier = 1;
  int64_t min_depth = 16;
  bool insert_1x1_conv = true;  ///< false: no 1x1 convolution in between
  bool use_explicit_padding = false;
  bool use_depthwise = false;  ///< the convolution of stride 2 becomes a depthwise and a 1x1 convolution
};
std::unique_ptr<Neck> make_multi_resolution_neck(const MultiResolutionOptions& options, const Backbone& backbone,
                                                 const Hyperparams& hyperparams);

}  // namespace osprey::nn
