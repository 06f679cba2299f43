#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osprey/config/type_registry.h"
#include "osprey/nn/hyperparams.h"
#include "osprey/nn/layer.h"

namespace osprey::nn {

/// Feature maps of a backbone by the name of the layer that gives them: [B, depth, h, w].
using Endpoints = std::map<std::string, at::Tensor>;

/// What residual networks leave open.
struct ResidualOptions {
  /// Where a map is halved between two blocks.
  enum class StridePlace { kAuto, kBlockEnd, kFirstConvolution, kFirst3x3Convolution };
  StridePlace stride_place = StridePlace::kAuto;  ///< kAuto: at the end of a block, in Keras in the first convolution
  bool zero_init_last_batch_norm = false;         ///< units start as identities
};

struct BackboneOptions {
  double depth_multiplier = 1;
  int64_t min_depth = 8;
  bool use_explicit_padding = false;
  bool freeze_batch_norm = false;
  bool keras = false;                        ///< as in the original's Keras models, where they compute something else
  bool regularize_depthwise = true;          ///< where the backbone's own hyperparams leave it open
  std::optional<Hyperparams> hyperparams;    ///< nothing: the backbone's own
  bool hyperparams_decide_all = false;       ///< also what the original's network sets itself, as in Keras models
  std::optional<Quantization> quantization;  ///< nothing, or for a backbone that does not know it: the float network
  ResidualOptions residual;                  ///< for residual networks
  std::string last_endpoint;                 ///< layers behind it are not made; empty: all that the backbone has

  /// Whether the hyperparams decide whether there is a batch norm, about all of its constants and the activation.
  bool obeys_hyperparams() const { return hyperparams && (keras || hyperparams_decide_all); }
};

/// A network that turns images into feature maps and knows nothing of boxes. One file each, registered by name:
/// OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v1", &make).
class Backbone : public torch::nn::Module {
 public:
  using Types = config::TypeRegistry<Backbone, const BackboneOptions&>;

  /// images  [B, 3, H, W] float, normalised
  /// wanted  the endpoints to give; all others are let go, and layers behind the last one need not run
  virtual Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context& context) = 0;

  /// Channels of an endpoint; throws std::out_of_range where there is none of that name.
  virtual int64_t depth(const std::string& endpoint) const = 0;

  /// Its scope in a checkpoint, e.g. "MobilenetV1".
  virtual std::string scope() const = 0;
};

}  // namespace osprey::nn
