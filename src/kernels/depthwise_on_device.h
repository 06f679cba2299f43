#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/cpu/sides.h"
#include "kernels/device/depthwise_weights.h"

namespace osprey::kernels {

/// A convolution of each channel by itself, and its gradients, by kernels for devices.
class DepthwiseOnDevice {
 public:
  /// Whether there are kernels for it: windows of 3 x 3 or 5 x 5 that move by 1 or 2, channels by fours.
  static bool takes(const at::Tensor& weights, int64_t stride);

  /// x        [B, C, H, W] of float32 or half the bits
  /// weights  [C, 1, kernel, kernel] float32
  DepthwiseOnDevice(const at::Tensor& x, const at::Tensor& weights, const cpu::Sides& sides);

  /// A map as the kernels read it: channels_last, from an address that is a multiple of what is read at once.
  static at::Tensor readable(const at::Tensor& map);

  at::Tensor forward() const;
  /// gradient  of the result, as `readable` gives it
  at::Tensor gradient_of_map(const at::Tensor& gradient) const;
  at::Tensor gradient_of_weights(const at::Tensor& gradient) const;

 private:
  enum class Turned { kNo, kYes };  ///< whether the weights begin with the last tap

  at::Tensor of_taps(Turned turned) const;  ///< the weights, [taps, C]
  at::Tensor convolve(const at::Tensor& x, Turned turned, const device::DepthwiseWindow& window) const;
  template <class Run>
  void with_types(Run run) const;
  template <int kRun>
  device::Strips<kRun> strips() const;

  at::Tensor x_, weights_;
  int kernel_;
  int64_t stride_;
  device::DepthwiseWindow window_;
};

}  // namespace osprey::kernels
