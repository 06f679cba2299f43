#include "osprey/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <stdexcept>

namespace osprey {
namespace {

TEST(Memory, WhatIsTakenIsNeverMoreThanThePeak) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
}

TEST(Memory, TheLimitOfAProcessIsWhatIsLeftForIt) {
  constexpr int64_t kMore = 64 << 20;
  int64_t pages = 0;  // of address space
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  rlimit narrow = limit;
  narrow.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + kMore);
  const int64_t before = available_bytes();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  const int64_t under_limit = available_bytes();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_GT(before, kMore);
  EXPECT_GT(under_limit, kMore / 2);
  EXPECT_LE(under_limit, kMore);
}

TEST(Memory, AFailedAllocationIsKnownByTypeOrMessage) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB.")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("expected images [B, 3, H, W]")));
}

}  // namespace
}  // namespace osprey
