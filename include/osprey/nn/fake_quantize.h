#pragma once
#include <cstdint>
#include <vector>

#include "osprey/kernels/rounded_map.h"
#include "osprey/nn/layer.h"

namespace osprey::nn {

struct FakeQuantizeOptions {
  enum class Range {
    kMovingAverage,  ///< of the ranges of the batches: of maps
    kLast,           ///< that of the last batch alone: of weights
  };
  Range range = Range::kMovingAverage;
  bool narrow = false;  ///< 255 numbers, so that as many lie below zero as above it
  /// Channels, [channels, ...], of which each has a range of its own, as far below zero as above it: of weights alone.
  /// 0: one range for all values.
  int64_t channels = 0;
  int64_t delay = 0;  ///< training rounds from this step on, counted from one, and only takes note of ranges before
  double initial_min = 0, initial_max = 6;  ///< evaluation rounds by these before any training
};

/// The numbers that stand for values: value = scale * (number - zero), with numbers from `first` to `last`.
struct AffineNumbers {
  double scale;
  int64_t zero, first, last;
};

/// Those of a range, which is moved so that zero is one of its values.
/// first  of the numbers, of which the last one is 255
AffineNumbers numbers_of_range(float least, float largest, int64_t first = 0);

/// The largest number of weights where each channel has a range of its own; the least is as far below zero.
inline constexpr int64_t kLargestWeight = 127;

/// The scales of the weights of a convolution, where each channel has its own.
/// largest  [channels] float32: of each channel, without sign
at::Tensor scales_of_channels(const at::Tensor& largest);

/// Rounds values to the 256 numbers of 8 bits, from the least to the largest value, one of which is zero: as a network
/// is to compute that will run with 8 bits. Gradients flow as if nothing were rounded, but not from values outside of
/// the range.
///
/// Variables: min, max (of the range, which evaluation rounds by; one or [channels]), local_step. Training rounds by
/// the range as the batch leaves it; that is kept aside until `commit`. The first batches of a moving average count
/// alike, as in TensorFlow's averages without bias.
///
/// source  Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
///         CVPR 2018, section 3; TensorFlow's fake_quant_with_min_max_vars
class FakeQuantize : public Layer {
 public:
  explicit FakeQuantize(const FakeQuantizeOptions& options = {});

  /// x  of any shape, float32 or half the bits; an empty tensor, or one of the meta device, comes back as it is
  at::Tensor forward(const at::Tensor& x);
  /// The values of a map of which batch norm and activation may be pending, rounded in the same pass, by one range.
  at::Tensor forward(const kernels::PendingMap& x);

  /// Takes note of the range alone, of what need not be rounded.
  void note(const at::Tensor& x);
  void note(const kernels::PendingMap& x);

  /// Whether training is known not to round yet: no where reading the step would be a wait, as on a GPU.
  bool is_waiting() const;

  /// Ranges that were kept aside since the last commit or discard are taken over: of all these layers together, in few
  /// launches. Several forward passes count as one, by the mean of their ranges.
  /// proceed  scalar bool on the device: false, they are thrown away; undefined: true
  static void commit(const std::vector<FakeQuantize*>& layers, const at::Tensor& proceed = {});
  void discard_statistics() override { passes_.clear(); }

 private:
  /// What values are rounded by, in training as the pass that has been noted last leaves it.
  kernels::RoundingGrid grid() const;
  /// Each channel rounded by its own range.
  at::Tensor by_channels(const at::Tensor& x) const;
  /// Rounded by numbers that are written down, in a network that is exported.
  at::Tensor traced(const at::Tensor& x) const;

  FakeQuantizeOptions options_;
  int64_t first_;  // of the numbers
  at::Tensor min_, max_, local_step_;
  std::vector<at::Tensor> passes_;  // ranges that were kept aside, [2] or [2, channels]
};

}  // namespace osprey::nn
