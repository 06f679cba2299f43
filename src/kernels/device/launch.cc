#include "kernels/device/launch.h"

#ifdef OSPREY_HAS_NVCC
#include <c10/cuda/CUDAStream.h>
#endif

namespace osprey::kernels::device {
namespace {

thread_local int emulations = 0;

}  // namespace

Emulation::Emulation() { ++emulations; }
Emulation::~Emulation() { --emulations; }
bool Emulation::active() { return emulations > 0; }

#ifdef OSPREY_HAS_NVCC

bool compiled() { return true; }

void* detail::current_stream(const at::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

#else

bool compiled() { return false; }

#endif

}  // namespace osprey::kernels::device
