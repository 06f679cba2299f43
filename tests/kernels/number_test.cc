#include "kernels/arithmetic/number.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/loops/floats.h"

namespace osprey::kernels {
namespace {

/// Every number of two bytes there is, and floats around each of them and half way to the next.
at::Tensor all_bits() { return at::arange(65536, at::kInt).to(at::kShort); }

template <class Number>
void expect_all(at::ScalarType type) {
  const at::Tensor numbers = all_bits().view(type), exact = numbers.to(at::kFloat);
  const auto* const bits = static_cast<const Number*>(numbers.const_data_ptr());
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const float wanted = exact.const_data_ptr<float>()[i], ours = load(bits + i);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(ours)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(ours), std::bit_cast<uint32_t>(wanted)) << i;
    }
  }
  const at::Tensor finite = exact.masked_select(exact.isfinite()), next = finite.roll(1);
  const at::Tensor floats = at::cat({finite, (finite + next) / 2, finite * 1.0001, finite * 0.99995, finite * 1e3,
                                     finite * 1e-4, at::tensor({INFINITY, -INFINITY, NAN})});
  const at::Tensor rounded = floats.to(type).view(at::kShort);
  for (int64_t i = 0; i < floats.numel(); ++i) {
    Number ours;
    store(&ours, floats.const_data_ptr<float>()[i]);
    if (std::isnan(floats.const_data_ptr<float>()[i])) {
      ASSERT_TRUE(std::isnan(load(&ours)));
    } else {
      ASSERT_EQ(ours.bits, static_cast<uint16_t>(rounded.const_data_ptr<int16_t>()[i])) << floats[i];
    }
  }
}

/// The same bits, but for numbers that are none, of which there are many.
/// bits  an integer type of as many
void expect_same(const at::Tensor& ours, const at::Tensor& wanted, at::ScalarType bits, const char* what) {
  const at::Tensor same = (ours.view(bits) == wanted.view(bits)).logical_or(ours.isnan() & wanted.isnan());
  EXPECT_TRUE(same.all().item<bool>()) << what << ": " << ours.masked_select(~same).slice(0, 0, 5);
}

/// Loops, which have instructions for it, do as `load` and `store`, in pieces of any length.
TEST(Numbers, OfIeeeHalvesAreReadAndRoundedByLoopsAsOneByOne) {
  const at::Tensor halves = all_bits().view(at::kHalf);
  at::Tensor exact = at::empty({halves.numel()}, at::kFloat), floats = at::empty_like(exact);
  const auto* const numbers = static_cast<const Float16*>(halves.const_data_ptr());
  for (int64_t i = 0; i < halves.numel(); ++i) exact.mutable_data_ptr<float>()[i] = load(numbers + i);
  const at::Tensor between =
      at::cat({exact, (exact + exact.roll(1)) / 2, exact * 1.0001, exact * 0.99995, exact * 1e3, exact * 1e-4});
  at::Tensor wanted = at::empty({between.numel()}, at::kHalf), rounded = at::empty_like(wanted);
  for (int64_t i = 0; i < between.numel(); ++i)
    store(static_cast<Float16*>(wanted.data_ptr()) + i, between.const_data_ptr<float>()[i]);
  for (const int64_t piece : {int64_t{1}, int64_t{29}, halves.numel()}) {
    for (int64_t i = 0; i < halves.numel(); i += piece)
      cpu::copy_floats(numbers + i, 0, 1, std::min(piece, halves.numel() - i), floats.mutable_data_ptr<float>() + i, 0);
    expect_same(floats, exact, at::kInt, "read");
    for (int64_t i = 0; i < between.numel(); i += piece)
      cpu::round_floats(between.const_data_ptr<float>() + i, std::min(piece, between.numel() - i),
                        static_cast<Float16*>(rounded.data_ptr()) + i);
    expect_same(rounded, wanted, at::kShort, "rounded");
  }
}

TEST(Numbers, OfTwoBytesAreReadAndRoundedAsLibtorchDoes) {
  expect_all<Bfloat16>(at::kBFloat16);
  expect_all<Float16>(at::kHalf);
}

}  // namespace
}  // namespace osprey::kernels
