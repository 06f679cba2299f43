#include "export/shared_rules.h"

#include <ATen/ATen.h>

namespace osprey {

at::Tensor numbers_of_weights(const TracedNode& o) {
  const at::Tensor rounded = at::fake_quantize_per_tensor_affine(o.constant(0).toTensor(), o.real(1), o.integer(2),
                                                                 o.integer(3), o.integer(4));
  return (rounded / o.real(1)).round().add(o.integer(2)).to(at::kByte);
}

at::Tensor numbers_of_weights_by_channels(const TracedNode& o) {
  const at::Tensor x = o.constant(0).toTensor(), scales = o.constant(1).toTensor(), zeros = o.constant(2).toTensor();
  const int64_t axis = o.axis(0, o.integer(3));
  o.expect(4, "another first number than -127", -127);
  o.expect(5, "another last number than 127", 127);
  const at::Tensor rounded = at::fake_quantize_per_channel_affine(x, scales, zeros, axis, o.integer(4), o.integer(5));
  std::vector<int64_t> along(static_cast<size_t>(x.dim()), 1);
  along[static_cast<size_t>(axis)] = -1;
  return ((rounded / scales.view(along)).round() + zeros.view(along)).to(at::kChar);
}

Upsampling::Upsampling(const TracedNode& o) : node_(o) {
  if (o.count() != 4) throw o.refused("scales instead of a size");
  before_ = o.shape(0);
  after_ = o.result_shape();
}

at::Tensor Upsampling::places(size_t axis) const {
  const at::Tensor all = at::arange(before_[axis], at::kFloat).view({1, 1, -1, 1});
  return at::upsample_nearest2d(all, {after_[axis], 1}, scale(axis)).flatten().to(at::kLong);
}

bool Upsampling::is_even(size_t axis) const {
  const double times = scale(axis).value_or(static_cast<double>(after_[axis] / before_[axis]));
  return after_[axis] % before_[axis] == 0 &&
         times * static_cast<double>(before_[axis]) == static_cast<double>(after_[axis]);
}

std::optional<double> Upsampling::scale(size_t axis) const {
  return node_.given(axis) ? std::optional(node_.real(axis)) : std::nullopt;
}

}  // namespace osprey
