#include "osprey/kernels/named_device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <optional>

#include "osprey/base/error.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {

at::Device named_device(const std::string& name) {
  const auto fail = [&](const char* why) { return ConfigError(fmt::format("--device {}: {}", name, why)); };
  constexpr const char* kForm = "must be cpu, cuda or cuda:<n>";
  if (name != "cpu" && !name.starts_with("cuda")) throw fail(kForm);
  std::optional<at::Device> device;
  try {
    device.emplace(name);
  } catch (const c10::Error&) {
    throw fail(kForm);
  }
  if (device->is_cpu()) return *device;
  if (!at::hasCUDA()) throw fail("no CUDA device is available");
  if (!device::compiled()) throw fail("this build has no kernels for GPUs, since it found no nvcc");
  if (!device->has_index()) return *device;
  if (device->index() >= at::detail::getCUDAHooks().deviceCount()) throw fail("there is no such GPU");
  c10::impl::VirtualGuardImpl(device->type()).setDevice(*device);
  return *device;
}

}  // namespace osprey::kernels
