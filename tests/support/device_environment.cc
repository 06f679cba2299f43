#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "osprey/kernels/device.h"

namespace osprey::testing {
namespace {

/// With OSPREY_TEST_DEVICE_KERNELS every test of a program is one of the GPU's kernels, which the CPU then runs.
class DeviceKernels : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("OSPREY_TEST_DEVICE_KERNELS") != nullptr)
      emulation_ = std::make_unique<kernels::device::Emulation>();
  }
  void TearDown() override { emulation_.reset(); }

 private:
  std::unique_ptr<kernels::device::Emulation> emulation_;
};

const auto* const environment = ::testing::AddGlobalTestEnvironment(new DeviceKernels);

}  // namespace
}  // namespace osprey::testing
