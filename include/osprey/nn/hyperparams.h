#pragma once
#include <optional>

#include "osprey/config/node.h"
#include "osprey/nn/activation.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/nn/initializer.h"
#include "osprey/nn/quantization.h"
#include "osprey/nn/regularizer.h"

namespace osprey::protos {
class Hyperparams;
}

namespace osprey::nn {

/// What a group of convolutions has in common.
struct Hyperparams {
  Regularizer regularizer;
  Regularizer depthwise_regularizer;  ///< of depthwise kernels
  Regularizer bias_regularizer;       ///< of biases; configs never set it
  Initializer initializer = Initializer::truncated_normal(0, 0.09);
  Activation activation = Activation::kRelu6;
  std::optional<BatchNormOptions> batch_norm = BatchNormOptions{};  ///< nothing: biases instead
  bool force_use_bias = false;                                      ///< biases beside the batch norm
  bool use_bias = true;                      ///< false: none where there is no batch norm, either
  std::optional<Quantization> quantization;  ///< nothing: the float network
};

/// The hyperparams of a config. Without `batch_norm` in it there is none. Depthwise kernels are penalised like the
/// others unless `regularize_depthwise` is set to false.
///
/// freeze_batch_norm  batch norm then never uses batch statistics
/// keras              for the original's Keras models, where `batch_norm.train` and `regularize_depthwise` change
///                    nothing and batch norm over replicas keeps the biased variance
/// throws             ConfigError where a value is out of range or a choice is not built
Hyperparams read_hyperparams(const config::ConfigNode<protos::Hyperparams>& node, bool freeze_batch_norm, bool keras);

}  // namespace osprey::nn
