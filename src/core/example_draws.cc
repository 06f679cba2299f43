#include "osprey/core/example_draws.h"

#include <ATen/ATen.h>

namespace osprey {
namespace {

constexpr int64_t kMask = 0xffffffff;

/// A 32-bit mixing step on int64 tensors, whose products keep their low 32 bits (the finaliser of MurmurHash3).
at::Tensor mix(at::Tensor z) {
  z = z.bitwise_and(kMask);
  z = z.bitwise_xor(at::bitwise_right_shift(z, 16)).mul_(0x85ebca6bLL).bitwise_and_(kMask);
  z = z.bitwise_xor(at::bitwise_right_shift(z, 13)).mul_(0xc2b2ae35LL).bitwise_and_(kMask);
  return z.bitwise_xor(at::bitwise_right_shift(z, 16));
}

}  // namespace

uint64_t name_key(const std::string& name) {
  uint64_t key = 14695981039346656037ull;
  for (const unsigned char c : name) key = (key ^ c) * 1099511628211ull;
  return key;
}

ExampleDraws::ExampleDraws(const std::string& name, uint64_t seed)
    : salt_(static_cast<int64_t>((name_key(name) ^ (seed * 0x9e3779b97f4a7c15ull)) & kMask)) {}

at::Tensor ExampleDraws::operator()(const at::Tensor& keys, int64_t count) const {
  const at::Tensor streams = mix(mix(mix(at::bitwise_right_shift(keys, 32).add(salt_)).add_(keys)));
  return mix(streams.unsqueeze(1).add(at::arange(count, keys.options())));
}

}  // namespace osprey
