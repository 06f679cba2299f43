#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "osprey/kernels/device.h"

namespace osprey::testing {
namespace {

/// With OSPREY_TEST_DEVICE_KERNELS every test of a program is one of the GPU's kernels, which the CPU then runs: last
/// threads first, which is not the order in which anybody would have thought of them, and with memory that holds no
/// numbers before they are written.
class DeviceKernels : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("OSPREY_TEST_DEVICE_KERNELS") == nullptr) return;
    emulation_ = std::make_unique<kernels::device::Emulation>(kernels::device::Emulation::Turns::kLastFirst);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  void TearDown() override { emulation_.reset(); }

 private:
  std::unique_ptr<kernels::device::Emulation> emulation_;
};

const auto* const environment = ::testing::AddGlobalTestEnvironment(new DeviceKernels);

}  // namespace
}  // namespace osprey::testing
