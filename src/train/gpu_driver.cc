#include "train/gpu_driver.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace osprey::train {
namespace {

/// CUDA's driver API, as much of it as is asked for (CUDA Driver API, sections 6.2 to 6.5). Its functions give 0 where
/// all is well.
class DriverLibrary {
 public:
  DriverLibrary() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {}  // libtorch keeps it loaded anyway
  explicit operator bool() const { return library_ != nullptr; }

  /// The result of a function, -1 where the library has none of that name.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

  std::string words_for(int error) const {
    const char* text = nullptr;
    return call("cuGetErrorString", error, &text) == 0 && text != nullptr ? text : "error " + std::to_string(error);
  }

 private:
  void* library_;
};

GpuDriver::Gpu gpu_of(const DriverLibrary& driver, int number) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  GpuDriver::Gpu gpu;
  std::array<char, 256> name{};
  size_t bytes = 0;
  int device = 0;
  driver.call("cuDeviceGet", &device, number);
  driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device);
  driver.call("cuDeviceTotalMem_v2", &bytes, device);
  driver.call("cuDeviceGetAttribute", &gpu.major, kMajor, device);
  driver.call("cuDeviceGetAttribute", &gpu.minor, kMinor, device);
  gpu.name = name.data();
  gpu.bytes = static_cast<int64_t>(bytes);
  return gpu;
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

GpuDriver gpu_driver() {
  GpuDriver result;
  const DriverLibrary driver;
  if (!driver) return result;
  result.installed = true;
  driver.call("cuDriverGetVersion", &result.cuda_version);
  int error = driver.call("cuInit", 0u), count = 0;
  if (error == 0) error = driver.call("cuDeviceGetCount", &count);
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE: all is well, but for GPUs
  if (error != 0 && error != kNoDevice) result.error = driver.words_for(error);
  for (int i = 0; i < count; ++i) result.gpus.push_back(gpu_of(driver, i));
  return result;
}

bool has_nvidia_gpu() {
  constexpr const char *kNvidia = "0x10de", *kDisplay = "0x03";  // the class of displays and 3D controllers
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/bus/pci/devices", none))
    if (first_line(device.path() / "vendor") == kNvidia && first_line(device.path() / "class").starts_with(kDisplay))
      return true;
  return false;
}

}  // namespace osprey::train
