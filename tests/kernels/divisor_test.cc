#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/device/kernel.h"

namespace osprey::kernels::device {
namespace {

void expect_split(int64_t index, int64_t size) {
  const Split split(index, Divisor(size));
  ASSERT_EQ(split.quotient, index / size) << index << " / " << size;
  ASSERT_EQ(split.rest, index % size) << index << " / " << size;
  if (index >> 31 != 0) return;
  const Split of_32_bits(static_cast<int>(index), Divisor(size));
  ASSERT_EQ(of_32_bits.quotient, index / size) << index << " / " << size;
  if (size >> 31 != 0) return;
  ASSERT_EQ(of_32_bits.rest, index % size) << index << " / " << size;
}

TEST(Divisor, GivesWhatDivisionGives) {
  constexpr int64_t kLimit = int64_t{1} << 31;  // from where on it does divide
  for (int bits = 0; bits <= 31; ++bits)
    for (const int64_t beside : {-1, 0, 1}) {
      const int64_t size = (int64_t{1} << bits) + beside;
      if (size < 1 || size > kLimit) continue;
      for (const int64_t multiple :
           {int64_t{0}, int64_t{1}, int64_t{7}, kLimit / size - 1, kLimit / size, 3 * kLimit / size})
        for (const int64_t around : {-1, 0, 1})
          if (const int64_t index = multiple * size + around; index >= 0) expect_split(index, size);
    }
  for (int64_t size = 1; size < 2000; ++size)
    for (int64_t index = size; index < kLimit; index = index * 5 + 3) expect_split(index, size);
}

TEST(Divisor, OfNothingMayBeNone) { EXPECT_EQ(static_cast<int64_t>(Divisor(0)), 0); }

}  // namespace
}  // namespace osprey::kernels::device
