#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

namespace osprey::kernels::cpu {

inline at::Tensor rounded(const at::Tensor& numbers) { return numbers.to(at::kBFloat16).to(at::kDouble); }

/// Sums of floats, in another order.
inline void expect_sums(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 1e-5, 1e-4)) << what;
}

}  // namespace osprey::kernels::cpu
