#include "osprey/kernels/fold_pixels.h"

#include <ATen/ATen.h>

#include "kernels/device/fold_pixels.h"
#include "kernels/maps.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {
namespace {

at::Tensor fold_operator(const at::Tensor& x, at::IntArrayRef before, at::IntArrayRef size) {
  TORCH_CHECK(takes_fold_pixels(x), "expected pictures [B, C, H, W] of up to ", kMostFoldedChannels,
              " channels, float32 or half the bits, got ", x.toString(), " ", x.sizes());
  TORCH_CHECK(before.size() == 2 && size.size() == 2 && size[0] >= 0 && size[1] >= 0,
              "expected zeros before two sides and the size of the result, got ", before, " and ", size);
  at::Tensor result = empty_map({x.size(0), 4 * kMostFoldedChannels, size[0], size[1]}, x);
  if (x.is_meta()) return result;
  const at::Tensor pictures = channels_last(x);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    static_assert(device::FoldPixels<T>::kChannels == kMostFoldedChannels);
    device::for_each(x, 2 * x.size(0) * size[0] * size[1],
                     device::FoldPixels<T>{device::data<const T>(pictures), static_cast<int>(x.size(1)), x.size(2),
                                           x.size(3), before[0], before[1], size[0], size[1], device::data<T>(result)});
  });
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "fold_pixels(Tensor x, int[] before, int[] size) -> Tensor", &fold_operator);
}

}  // namespace

at::Tensor fold_pixels(const at::Tensor& x, std::array<int64_t, 2> before, std::array<int64_t, 2> size) {
  static const auto operation = find_operator("fold_pixels", &fold_operator);
  return operation.call(x, before, size);
}

bool takes_fold_pixels(const at::Tensor& x) {
  return has_kernels(x) && x.dim() == 4 && x.size(1) > 0 && x.size(1) <= kMostFoldedChannels &&
         is_element(x.scalar_type());
}

}  // namespace osprey::kernels
