#pragma once
#include <ATen/core/Tensor.h>

/// The kernels for GPUs.
namespace osprey::kernels::device {

/// Whether this build has the kernels compiled for GPUs.
bool compiled();

/// While one lives, operators of this thread run the GPU's kernels on tensors of the CPU, block after block: for tests.
/// What a block has of memory holds no numbers at first.
class Emulation {
 public:
  /// How blocks, and the threads of one, take turns. A GPU promises no order, so none may make a difference.
  enum class Turns { kFirstFirst, kLastFirst };

  explicit Emulation(Turns turns = Turns::kFirstFirst);
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;
  static bool active();
  static Turns turns();  ///< of the one that was begun last

 private:
  Turns outer_;
};

/// Whether the loops for CPUs are to work on a tensor, and not the kernels.
inline bool takes_loops(const at::Tensor& tensor) { return tensor.is_cpu() && !Emulation::active(); }

/// Whether looking at a value would make the host wait for the device, which a training step never does.
inline bool reading_waits(const at::Tensor& tensor) { return !takes_loops(tensor); }

}  // namespace osprey::kernels::device
