#pragma once
#include <ATen/core/Tensor.h>

/// The kernels for GPUs.
namespace osprey::kernels::device {

/// Whether this build has the kernels compiled for GPUs.
bool compiled();

/// While one lives, operators of this thread run the GPU's kernels on tensors of the CPU, block after block: for tests.
class Emulation {
 public:
  Emulation();
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;
  static bool active();
};

/// Whether the loops for CPUs are to work on a tensor, and not the kernels.
inline bool takes_loops(const at::Tensor& tensor) { return tensor.is_cpu() && !Emulation::active(); }

/// Whether looking at a value would make the host wait for the device, which a training step never does.
inline bool reading_waits(const at::Tensor& tensor) { return !takes_loops(tensor); }

}  // namespace osprey::kernels::device
