#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "osprey/nn/backbone.h"

namespace osprey::nn {

/// Makes the feature maps that predictions are made from out of those of a backbone.
class Neck : public torch::nn::Module {
 public:
  /// Finest first.
  virtual std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context& context) = 0;
  /// The endpoints that `forward` reads.
  virtual std::set<std::string> endpoints() const = 0;
  /// Channels of each feature map.
  virtual std::vector<int64_t> depths() const = 0;
  /// The scope of its layers within the extractor; empty: that of the backbone.
  virtual std::string scope() const { return ""; }
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
  /// As in the original's Keras models: depthwise kernels have other first weights and no penalty; the new layers have
  /// a scope of their own, "FeatureMaps".
  bool keras = false;
};
std::unique_ptr<Neck> make_multi_resolution_neck(const MultiResolutionOptions& options, const Backbone& backbone,
                                                 const Hyperparams& hyperparams);

/// Name in a Keras model of a variable below the scope "FeatureMaps", such as
/// "layer_19_2_Conv2d_2_3x3_s2_512.BatchNorm.gamma".
/// extractor  the scope of the whole extractor there
std::string multi_resolution_keras_name(const std::string& extractor, const std::string& name);

/// Feature pyramid: every level of the backbone, brought to one depth, with the coarser levels added to it; coarser
/// ones beyond the backbone follow by convolutions of stride 2.
///
/// source  Lin et al., "Feature Pyramid Networks for Object Detection", CVPR 2017; Lin et al., "Focal Loss for Dense
///         Object Detection", ICCV 2017, for the coarse levels
struct FeaturePyramidOptions {
  std::vector<std::string> endpoints;      ///< of the backbone, finest first; each half the side of the one before
  std::vector<std::string> coarse_scopes;  ///< names of the convolutions that make the levels beyond the backbone
  int64_t depth = 256;                     ///< of every map
  bool use_explicit_padding = false;       ///< a level may then be less than twice as large as the one after it, too
  bool use_depthwise = false;              ///< separable convolutions, but for the projections ("FPN-lite")
  /// As in the original's Keras models: a finer level is made of the smoothed coarser one, not of the sum before its
  /// smoothing, and separable convolutions have other first weights and penalties.
  bool keras = false;
};
/// throws  ConfigError in forward where a level is not half as large as the one before: the image size does not suit it
std::unique_ptr<Neck> make_feature_pyramid_neck(const FeaturePyramidOptions& options, const Backbone& backbone,
                                                const Hyperparams& hyperparams);

/// Name in a Keras model of a variable below the scope "fpn", such as "smoothing_1.BatchNorm.gamma".
/// extractor  the scope of the whole extractor there, e.g. "ResNet50V1_FPN"
std::string feature_pyramid_keras_name(const std::string& extractor, const std::string& name);

/// Pooling pyramid: one map of the backbone, halved again and again by max pooling, so that one predictor fits all.
/// source  Jin et al., "Pooling Pyramid Network for Object Detection", 2018
struct PoolingPyramidOptions {
  std::string endpoint;
  int64_t num_layers = 6;
  int64_t base_depth = 0;  ///< channels that a 1x1 convolution brings the map to first; 0: as it is
};
std::unique_ptr<Neck> make_pooling_pyramid_neck(const PoolingPyramidOptions& options, const Backbone& backbone,
                                                const Hyperparams& hyperparams);

}  // namespace osprey::nn
