#include "kernels/device/launch.h"

#ifdef OSPREY_HAS_NVCC
#include <c10/cuda/CUDAStream.h>
#endif

namespace osprey::kernels::device {
namespace {

thread_local int emulations = 0;
thread_local Emulation::Turns present_turns = Emulation::Turns::kFirstFirst;

}  // namespace

Emulation::Emulation(Turns turns) : outer_(present_turns) {
  ++emulations;
  present_turns = turns;
}
Emulation::~Emulation() {
  --emulations;
  present_turns = outer_;
}
bool Emulation::active() { return emulations > 0; }
Emulation::Turns Emulation::turns() { return present_turns; }

#ifdef OSPREY_HAS_NVCC

bool compiled() { return true; }

void* detail::current_stream(const at::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

#else

bool compiled() { return false; }

#endif

}  // namespace osprey::kernels::device
