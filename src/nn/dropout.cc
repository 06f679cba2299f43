#include "osprey/nn/dropout.h"

namespace osprey::nn {
void Dropout::on_named(const std::string& full_name, uint64_t seed) { draws_ = ExampleDraws(full_name, seed); }

at::Tensor Dropout::forward(const at::Tensor& x, const Context& context) const {
  if (!is_training() || !context.example_keys.defined() || keep_probability_ >= 1) return x;
  const at::Tensor draws = draws_(context.example_keys.to(x.device()), x.size(1) * x.size(2) * x.size(3));
  const auto threshold = static_cast<int64_t>(keep_probability_ * 0x1p32);
  const at::Tensor mask = draws.lt(threshold).view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2});
  return x * mask.to(x.scalar_type()).mul_(1 / keep_probability_);
}

void DropPath::on_named(const std::string& full_name, uint64_t seed) { draws_ = ExampleDraws(full_name, seed); }

at::Tensor DropPath::forward(const at::Tensor& x, const Context& context) const {
  if (!is_training() || !context.example_keys.defined() || drop_rate_ <= 0) return x;
  const at::Tensor draws = draws_(context.example_keys.to(x.device()), 1);
  const double keep = 1 - drop_rate_;
  const at::Tensor mask = draws.lt(static_cast<int64_t>(keep * 0x1p32)).view({-1, 1, 1, 1});
  return x * mask.to(x.scalar_type()).mul_(1 / keep);
}

}  // namespace osprey::nn
