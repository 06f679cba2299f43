#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/nn/activation.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/nn/feature_map.h"
#include "osprey/nn/hyperparams.h"
#include "osprey/nn/layer.h"
#include "osprey/nn/quantization.h"

namespace osprey::nn {

/// How the border of a feature map is treated.
enum class Padding {
  kSame,   ///< output side is ceil(side / stride); zeros are added evenly, the odd one at the bottom and right
  kValid,  ///< no zeros
  kFixed,  ///< kernel - 1 zeros whatever the size and stride, the odd one at the bottom and right ("explicit padding")
};

/// Zeros before and after one side of a map.
struct PaddingAmount {
  int64_t before = 0, after = 0;
};
PaddingAmount padding_amount(Padding padding, int64_t side, int64_t kernel, int64_t stride, int64_t dilation = 1);

struct ConvolutionOptions {
  std::array<int64_t, 2> kernel = {1, 1};  ///< height, width
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t groups = 1;
  Padding padding = Padding::kSame;
};

/// 2-D convolution with TensorFlow's paddings.
/// x        [B, C, H, W]
/// weights  [O, C / groups, kernel height, kernel width]
/// biases   [O], or undefined
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                    const ConvolutionOptions& options);

/// The same of several maps, of which the sides may differ: in one go where that is faster.
std::vector<at::Tensor> convolve_all(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases,
                                     const ConvolutionOptions& options);

/// Pooling with TensorFlow's paddings; padded places never count, neither for the maximum nor for the average.
at::Tensor max_pool(const at::Tensor& x, int64_t kernel, int64_t stride, Padding padding);

at::Tensor average_pool(const at::Tensor& x, int64_t kernel, int64_t stride, Padding padding);

/// Each value factor * factor times, in the type that x has.   x  [B, C, H, W]
at::Tensor upsampled(const at::Tensor& x, int64_t factor);

struct ConvBlockOptions {
  int64_t in_depth = 0;
  int64_t out_depth = 0;  ///< ignored where depthwise
  std::array<int64_t, 2> kernel = {1, 1};
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding = Padding::kSame;
  bool depthwise = false;   ///< one filter per input channel; the variable is then called depthwise_weights
  bool normalize = true;    ///< false: no batch norm, whatever the hyperparams say
  bool activate = true;     ///< false: no activation, whatever the hyperparams say
  bool bias = true;         ///< biases where nothing normalises
  double bias_init = 0;     ///< first value of the biases
  QuantizedMaps maps = {};  ///< that it is for, where it is rounded
};

/// What comes behind a convolution of several maps.
struct NormsOfMaps {
  std::vector<std::shared_ptr<BatchNorm>> norms;  ///< of each map; empty: none
  Activation activation = Activation::kNone;

  BatchNorm* norm(size_t map) const { return norms.empty() ? nullptr : norms.at(map).get(); }

  /// y  [B, C, H, W] what the convolution has made of map number `map`
  at::Tensor forward(size_t map, const at::Tensor& y) const;
};

/// A convolution and what belongs to it, of whichever kind.
class ConvolutionLayer : public Layer {
 public:
  /// x  [B, in_depth, H, W]; of it and of the result batch norm and activation may be pending
  virtual FeatureMap forward(const FeatureMap& x) = 0;
  /// Several maps one after the other, or together where that is faster.
  /// maps    [B, in_depth, H, W] each
  /// behind  done to each result after all that belongs to the layer; may be left pending
  virtual std::vector<FeatureMap> forward_all(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) = 0;
  /// Whether weights and results are rounded, in training from some step on.
  virtual bool is_quantized() const = 0;
};

/// Convolution, batch norm and activation under one scope: the unit that backbones, necks and heads are made of.
///
/// Variables: weights or depthwise_weights; biases where there is no batch norm (or the hyperparams insist);
/// BatchNorm/...; weights_quant/... and act_quant/... where the hyperparams want quantization.
class ConvBlock : public ConvolutionLayer {
 public:
  ConvBlock(const ConvBlockOptions& options, const Hyperparams& hyperparams);

  /// x  [B, in_depth, H, W]
  at::Tensor forward(const at::Tensor& x);

  /// The same for blocks that follow each other: batch norm and activation may be left pending, for the next one.
  FeatureMap forward(const FeatureMap& x) override;
  std::vector<FeatureMap> forward_all(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) override;
  /// The same for the last of them.
  at::Tensor forward_last(const FeatureMap& x);
  /// What a residual unit ends with: activation(forward(x) + addend), where batch norm comes last in one pass.
  /// addend  as large as the result
  /// next    reads the result, in one with it where that can be done: then the result has what it has `read`, all that
  ///         goes with its forward pass has been done, and it is not to be called again; null: none
  /// throws  c10::Error where the block has an activation of its own
  ForkedMap forward_plus(const FeatureMap& x, const at::Tensor& addend, Activation activation,
                         ConvBlock* next = nullptr);
  int64_t out_depth() const { return out_depth_; }
  bool is_quantized() const override { return !quantizers_.empty(); }

 private:
  /// Whether it rounds now.
  bool rounds() const;
  /// Leaves the batch norm of a result pending.
  /// map  its number
  FeatureMap leave(size_t map, BatchNorm& norm, const kernels::MapWithStatistics& made, Activation activation) const;
  /// Whether batch norm can be left pending.
  bool leaves_batch_norm(const FeatureMap& x) const;
  /// The same of what comes behind.
  bool leaves_batch_norms(const std::vector<FeatureMap>& maps, const NormsOfMaps& behind) const;
  /// Whether it can be done in one with the sum that it reads.
  /// like  of the sizes, type and order in memory of the sum
  bool reads_sums(const at::Tensor& like) const;
  /// The convolution, its batch norm, which can be left pending, the sum, an activation that is a clamp, and what reads
  /// the sum, if it can, in one.
  ForkedMap in_one(const FeatureMap& x, const at::Tensor& addend, Activation activation, ConvBlock* next);
  /// Batch norm and activation.
  at::Tensor finish(const at::Tensor& y);
  /// These after the convolution.
  at::Tensor step_by_step(const at::Tensor& x);

  ConvolutionOptions convolution_;
  Activation activation_;
  int64_t out_depth_;
  at::Tensor weights_, biases_;
  std::shared_ptr<BatchNorm> batch_norm_;
  std::vector<ConvolutionQuantizers> quantizers_;  // of each map; empty: nothing is rounded
};

}  // namespace osprey::nn
