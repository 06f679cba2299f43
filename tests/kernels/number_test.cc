#include "kernels/arithmetic/number.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(Numbers, OfTwoBytesAreReadAndRoundedAsLibtorchDoes) {
  expect_all<Bfloat16>(at::kBFloat16);
  expect_all<Float16>(at::kHalf);
}

}  // namespace
}  // namespace osprey::kernels
