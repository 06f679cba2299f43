#include "osprey/nn/dropout.h"

namespace osprey::nn {
namespace {

constexpr int64_t kMask = 0xffffffff;

/// A 32-bit mixing step on int64 tensors, whose products keep their low 32 bits (the finaliser of MurmurHash3).
at::Tensor mix(at::Tensor z) {
  z = z.bitwise_and(kMask);
  z = z.bitwise_xor(at::bitwise_right_shift(z, 16)).mul_(0x85ebca6bLL).bitwise_and_(kMask);
  z = z.bitwise_xor(at::bitwise_right_shift(z, 13)).mul_(0xc2b2ae35LL).bitwise_and_(kMask);
  return z.bitwise_xor(at::bitwise_right_shift(z, 16));
}

int64_t salt_of(const std::string& full_name, uint64_t seed) {
  return static_cast<int64_t>((name_key(full_name) ^ (seed * 0x9e3779b97f4a7c15ull)) & kMask);
}

/// One 32-bit number for each example, [B].
at::Tensor stream_of(const at::Tensor& keys, int64_t salt) {
  return mix(mix(mix(at::bitwise_right_shift(keys, 32).add(salt)).add_(keys)));
}

}  // namespace

void Dropout::on_named(const std::string& full_name, uint64_t seed) { salt_ = salt_of(full_name, seed); }

at::Tensor Dropout::forward(const at::Tensor& x, const Context& context) const {
  if (!is_training() || !context.example_keys.defined() || keep_probability_ >= 1) return x;
  const at::Tensor keys = context.example_keys.to(x.device());
  const at::Tensor streams = stream_of(keys, salt_);
  const at::Tensor index = at::arange(x.size(1) * x.size(2) * x.size(3), keys.options());
  const at::Tensor draws = mix(streams.unsqueeze(1).add(index));  // [B, H * W * C], uniform in 0 .. 2^32 - 1
  const auto threshold = static_cast<int64_t>(keep_probability_ * 0x1p32);
  const at::Tensor mask = draws.lt(threshold).view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2});
  return x * mask.to(x.scalar_type()).mul_(1 / keep_probability_);
}

void DropPath::on_named(const std::string& full_name, uint64_t seed) { salt_ = salt_of(full_name, seed); }

at::Tensor DropPath::forward(const at::Tensor& x, const Context& context) const {
  if (!is_training() || !context.example_keys.defined() || drop_rate_ <= 0) return x;
  const at::Tensor draws = mix(stream_of(context.example_keys.to(x.device()), salt_));  // uniform in 0 .. 2^32 - 1
  const double keep = 1 - drop_rate_;
  const at::Tensor mask = draws.lt(static_cast<int64_t>(keep * 0x1p32)).view({-1, 1, 1, 1});
  return x * mask.to(x.scalar_type()).mul_(1 / keep);
}

}  // namespace osprey::nn
