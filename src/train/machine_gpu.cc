#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <cstdlib>

#include "osprey/kernels/device.h"
#include "train/gpu_driver.h"
#include "train/machine_findings.h"

namespace osprey::train {
namespace {
using State = MachineFinding::State;

std::string cuda_number(long version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

/// What keeps this build from using the GPUs that the driver gives; a finding without words where nothing does.
MachineFinding obstacle(const GpuDriver& driver) {
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  if (!cuda.hasCUDART())
    return {"gpu", State::kProblem, "this build's libtorch has no CUDA: only the CPU can train",
            "scripts/setup.sh --cuda, then build again"};
  const long needed = cuda.versionCUDART();
  // Within one major version an older driver serves newer libraries (CUDA's "minor version compatibility").
  if (driver.cuda_version > 0 && driver.cuda_version / 1000 < needed / 1000)
    return {"gpu", State::kProblem,
            fmt::format("the driver serves CUDA {} at most, libtorch needs {}", cuda_number(driver.cuda_version),
                        cuda_number(needed)),
            fmt::format("install a driver for CUDA {}.0 or newer", needed / 1000)};
  if (!driver.error.empty())
    return {"gpu", State::kProblem, "the driver cannot be used: " + driver.error,
            "see whether nvidia-smi works here; in a container, start that with --gpus all"};
  if (!kernels::device::compiled())
    return {"gpu", State::kProblem, "this build has no kernels for GPUs, since it found no nvcc",
            "install the CUDA toolkit and build again"};
  if (!at::hasCUDA())
    return {"gpu", State::kProblem, "the driver gives GPUs, but libtorch finds none",
            "see whether nvidia-smi works here, and that the driver was not updated since the machine was started"};
  return {};
}

}  // namespace

void look_at_gpus(Findings& findings) {
  const GpuDriver driver = gpu_driver();
  if (!driver.installed) {
    if (has_nvidia_gpu())
      findings.push_back({"gpu", State::kProblem, "there is one of NVIDIA, but no driver for it (libcuda.so.1)",
                          "install the driver; in a container, start that with --gpus all"});
    else
      findings.push_back({"gpu", State::kOk, "none: the CPU trains", ""});
    return;
  }
  if (driver.gpus.empty() && driver.error.empty()) {
    findings.push_back({"gpu", State::kWarning, "the driver is here, but gives no GPU",
                        std::getenv("CUDA_VISIBLE_DEVICES") != nullptr
                            ? "CUDA_VISIBLE_DEVICES hides those that it does not name"
                            : "see whether nvidia-smi lists one"});
    return;
  }
  for (size_t i = 0; i < driver.gpus.size(); ++i) {
    const GpuDriver::Gpu& gpu = driver.gpus[i];
    findings.push_back({fmt::format("gpu {}", i), State::kOk,
                        fmt::format("{}, {:.0f} GiB, compute capability {}.{}, driver for CUDA {}", gpu.name,
                                    static_cast<double>(gpu.bytes) / (1 << 30), gpu.major, gpu.minor,
                                    cuda_number(driver.cuda_version)),
                        ""});
  }
  if (const MachineFinding found = obstacle(driver); !found.found.empty()) findings.push_back(found);
}

}  // namespace osprey::train
