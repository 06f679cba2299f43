#include <ATen/ATen.h>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

/// Of batch_norm_steps.h those in which a map is added.
namespace osprey::kernels {

at::Tensor add_normalized(const at::Tensor& x, const Affine& affine, const at::Tensor& addend) {
  const at::Tensor y = empty_map(x.sizes(), x);
  const int64_t depth = x.size(1);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* added = device::data<const T>(addend);
    if (!device::takes_loops(x)) return normalize_on_device<T>(x, affine, added, y);
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(y);
    MapRows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * depth;
      cpu::add_normalized_rows(in + at, added + at, number, depth, affine.channels, out + at);
    });
  });
  return y;
}

std::pair<at::Tensor, at::Tensor> sum_gradient_moments(const SumGradient& of_sum, const at::Tensor& y,
                                                       const at::Tensor& x, const Affine& affine) {
  const at::Tensor of_addend = empty_map(x.sizes(), x);
  const int64_t depth = x.size(1);
  at::Tensor moments;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *made = device::data<const T>(y),
            *wanted = device::data<const T>(of_sum.gradient);
    const T* const more = of_sum.again.defined() ? device::data<const T>(of_sum.again) : nullptr;
    T* const addends = device::data<T>(of_addend);
    if (!device::takes_loops(x)) {
      with_width<T>(x, {wanted, more == nullptr ? wanted : more, made, in, addends}, [&](auto width) {
        const auto run = [&](auto twice) {
          moments = column_sums_on_device(
              x, device::SumGradientMoments<T, width, twice>{wanted, more, made, in, affine.channels, addends});
        };
        more == nullptr ? run(std::false_type()) : run(std::true_type());
      });
      return;
    }
    moments = column_sums(MapRows(x), [&](int64_t first, int64_t number, float* scratch, double* sum, double* product) {
      const int64_t at = first * depth;
      cpu::take_back_sum_rows(wanted + at, more == nullptr ? more : more + at, made + at, in + at, number, depth,
                              affine.channels, scratch, sum, product, addends + at);
    });
  });
  return {moments, of_addend};
}

}  // namespace osprey::kernels
