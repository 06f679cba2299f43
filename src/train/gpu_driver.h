#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace osprey::train {

/// What the driver of NVIDIA GPUs says by itself, so that it also answers where libtorch cannot use it.
struct GpuDriver {
  struct Gpu {
    std::string name;
    int64_t bytes = 0;         ///< of memory
    int major = 0, minor = 0;  ///< compute capability
  };
  bool installed = false;  ///< its library libcuda.so.1 is there
  int cuda_version = 0;    ///< the newest that it can serve: 12040 is 12.4; 0: it does not say
  std::string error;       ///< why it gives no GPU
  std::vector<Gpu> gpus;   ///< those that CUDA_VISIBLE_DEVICES lets it show
};

GpuDriver gpu_driver();

/// Whether one of NVIDIA's GPUs is plugged in, driver or not.
bool has_nvidia_gpu();

}  // namespace osprey::train
