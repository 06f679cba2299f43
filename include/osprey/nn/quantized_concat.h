#pragma once
#include <vector>

#include "osprey/nn/layer.h"

namespace osprey::nn {

/// Puts maps behind each other, rounded to 256 numbers between the least and the largest value of all of them, as a
/// network does that is to run with 8 bits. Gradients flow as if nothing were rounded, but not from values outside of
/// the range.
///
/// Variables: min, max (moving averages of the range, which evaluation rounds by), local_step. Training rounds by the
/// averages as the batch leaves them; they are kept aside until `commit_statistics`. The first batches count alike, as
/// in TensorFlow's averages without bias.
///
/// source  Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
///         CVPR 2018, section 3; TensorFlow's fake_quant_with_min_max_vars
class QuantizedConcat : public Layer {
 public:
  QuantizedConcat();

  /// maps  [B, C, H, W] each; a tensor of the meta device comes back as it is
  at::Tensor forward(const std::vector<at::Tensor>& maps);

  /// Several forward passes count as one, by the mean of their ranges.
  void commit_statistics(const at::Tensor& proceed) override;
  void discard_statistics() override { passes_.clear(); }

 private:
  /// min and max, [2] float, and local_step.
  struct Averages {
    at::Tensor range, step;
  };
  Averages with(const at::Tensor& range) const;

  at::Tensor min_, max_, local_step_;
  std::vector<at::Tensor> passes_;  // ranges that were kept aside, [2]
};

}  // namespace osprey::nn
