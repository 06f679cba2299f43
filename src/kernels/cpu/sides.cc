#include "kernels/cpu/sides.h"

namespace osprey::kernels::cpu {

Sides::Sides(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding) {
  TORCH_CHECK(stride > 0 && padding.size() == 4, "a window has a stride > 0 and four paddings");
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "expected maps and weights of four sides, got ", x.sizes(), " and ",
              weights.sizes());
  const auto side = [&](int64_t dimension, int64_t before, int64_t after) {
    const int64_t from = x.size(dimension), kernel = weights.size(dimension);
    TORCH_CHECK(kernel > 0 && kernel <= kMostTaps && before >= 0 && after >= 0 && before + from + after >= kernel,
                "a kernel of ", weights.sizes(), " does not move over ", x.sizes(), " with padding ", padding);
    return Side{from, (before + from + after - kernel) / stride + 1, kernel, stride, before};
  };
  lines = side(2, padding[0], padding[1]);
  pixels = side(3, padding[2], padding[3]);
}

bool Sides::are_those_of_1x1() const {
  const auto one = [](const Side& side) { return side.kernel == 1 && side.stride == 1 && side.from == side.to; };
  return one(lines) && one(pixels);
}

}  // namespace osprey::kernels::cpu
