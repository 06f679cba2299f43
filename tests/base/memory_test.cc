#include "osprey/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <stdexcept>

namespace osprey {
namespace {

TEST(Memory, WhatIsTakenIsNeverMoreThanThePeak) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
}

TEST(Memory, TheLimitOfAProcessIsWhatIsLeftForIt) {
  const int64_t before = available_bytes();
  ASSERT_GT(before, 0);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "there is a limit already";
  rlimit narrow = limit;
  narrow.rlim_cur = rlim_t{1} << 20;  // less than the process has
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  const int64_t under_limit = available_bytes();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(under_limit, 1) << "nothing, which is not the same as not knowing";
  EXPECT_GT(available_bytes(), before / 2);
}

TEST(Memory, AFailedAllocationIsKnownByTypeOrMessage) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB.")));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("expected images [B, 3, H, W]")));
}

}  // namespace
}  // namespace osprey
