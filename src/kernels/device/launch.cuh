#pragma once
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "kernels/device/kernel.h"

/// What a file of kernels needs to start them.
namespace osprey::kernels::device::detail {

/// Blocks of a kernel that a multiprocessor is to have at once; 0: as many as fit.
template <class Kernel>
constexpr int at_once() {
  if constexpr (requires { Kernel::kAtOnce; }) return Kernel::kAtOnce;
  return 0;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, at_once<Kernel>()) run_blocks(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(DeviceBlock{static_cast<int64_t>(blockIdx.x)}, shared);
}

template <class Kernel>
void run_on_gpu(const Kernel& kernel, int64_t blocks, void* stream) {
  static_assert(sizeof(Kernel) <= 4096, "so much fits into the arguments of a kernel");
  run_blocks<<<static_cast<unsigned>(blocks), Kernel::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(kernel);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error) + ", seen when " + __PRETTY_FUNCTION__ +
                             " was started; what came before may have caused it (CUDA_LAUNCH_BLOCKING=1 tells)");
}

}  // namespace osprey::kernels::device::detail

/// The kernels that this file makes for GPUs.
#define OSPREY_FOR_GPU(...) template void detail::run_on_gpu(const __VA_ARGS__& kernel, int64_t blocks, void* stream)
