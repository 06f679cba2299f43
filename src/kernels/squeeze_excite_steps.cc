#include "kernels/squeeze_excite_steps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/line_tasks.h"
#include "kernels/cpu/loops/squeeze_excite_rows.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/launch.h"
#include "kernels/device/squeeze_excite.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {
namespace {

/// Rows of one picture, a task of a CPU's.
struct RowsOfPicture {
  int64_t task, picture, at, count;  ///< `at`: the first element
};

template <class Work>  // work(rows)
void for_rows_of_pictures(const at::Tensor& x, Work work) {
  cpu::for_lines(x.size(0), x.size(2), [&](int64_t task, int64_t picture, int64_t begin, int64_t end) {
    work(RowsOfPicture{task, picture, Picture(x, picture).at(begin), (end - begin) * x.size(3)});
  });
}

/// A sum for each channel of each picture, [B, C] float64, gathered by tasks and then in their order.
template <class Work>  // work(rows, scratch, sum)
at::Tensor sums_of_pictures(const at::Tensor& x, Work work) {
  const int64_t depth = x.size(1), tasks = cpu::line_tasks(x.size(2));
  const at::Tensor parts = at::zeros({x.size(0), tasks, depth}, at::kDouble);
  auto* const sums = parts.mutable_data_ptr<double>();
  for_rows_of_pictures(x, [&](const RowsOfPicture& rows) {
    std::vector<float> scratch(static_cast<size_t>(depth));
    work(rows, scratch.data(), sums + rows.task * depth);
  });
  const at::Tensor result = at::zeros({x.size(0), depth}, at::kDouble);
  auto* total = result.mutable_data_ptr<double>();
  const double* part = sums;
  for (int64_t picture = 0; picture < x.size(0); ++picture, total += depth)
    for (int64_t task = 0; task < tasks; ++task, part += depth)
      for (int64_t c = 0; c < depth; ++c) total[c] += part[c];
  return result;
}

/// How the rows of each picture are shared by threads of a device.
template <int kWidth>
device::RowShares<kWidth> shares_of_pictures(const at::Tensor& x, int64_t most_blocks, int64_t least_rows) {
  return {x.size(2) * x.size(3), x.size(1), std::max<int64_t>(most_blocks / x.size(0), 1), least_rows};
}

/// Two sums for each channel of each picture by a kernel for devices, in parts: [B, parts, 2, C] float64.
template <class Element>
at::Tensor parts_of_pictures_on_device(const at::Tensor& x, const Element& element) {
  using Sums = device::ColumnSums<Element>;
  const auto shares = shares_of_pictures<Element::kWidth>(x, Sums::kMostBlocks, Sums::kLeastRows);
  const at::Tensor parts = at::empty({x.size(0), shares.row_blocks, 2, x.size(1)}, x.options().dtype(at::kDouble));
  device::launch(x, x.size(0) * shares.blocks(),
                 device::PictureSums<Element>{element, shares, parts.mutable_data_ptr<double>()});
  return parts;
}

/// The first of these sums: [B, C].
template <class Element>
at::Tensor sums_of_pictures_on_device(const at::Tensor& x, const Element& element) {
  return parts_of_pictures_on_device(x, element).select(2, 0).sum(1);
}

}  // namespace

at::Tensor value_means(const at::Tensor& x, const Affine& affine) {
  at::Tensor sums;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    if (device::takes_loops(x)) {
      sums = sums_of_pictures(x, [&](const RowsOfPicture& rows, float* scratch, double* sum) {
        cpu::add_values(in + rows.at, rows.count, x.size(1), affine.channels, scratch, sum);
      });
      return;
    }
    with_width<T>(x, {in}, [&](auto width) {
      device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
        sums = sums_of_pictures_on_device(x, device::ValueSums<T, width, decltype(curve)>{in, affine.channels, curve});
      });
    });
  });
  return (sums / (x.size(2) * x.size(3))).to(at::kFloat);
}

at::Tensor gated(const at::Tensor& x, const Affine& affine, const at::Tensor& gates) {
  const at::Tensor y = empty_map(x.sizes(), x);
  const auto* const factors = gates.const_data_ptr<float>();
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(y);
    if (device::takes_loops(x)) {
      for_rows_of_pictures(x, [&](const RowsOfPicture& rows) {
        cpu::gate_rows(in + rows.at, rows.count, x.size(1), affine.channels, factors + rows.picture * x.size(1),
                       out + rows.at);
      });
      return;
    }
    with_width<T>(x, {in, out}, [&](auto width) {
      device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
        const device::Gate<T, width, decltype(curve)> gate{
            shares_of_pictures<width>(x, device::kBlocksOfPass, /*least_rows=*/4),
            in,
            affine.channels,
            curve,
            factors,
            out};
        device::launch(x, x.size(0) * gate.shares.blocks(), gate);
      });
    });
  });
  return y;
}

std::pair<at::Tensor, at::Tensor> take_back_gates(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine,
                                                  const at::Tensor& gates) {
  const at::Tensor of_values = empty_map(x.sizes(), x);
  const auto* const factors = gates.const_data_ptr<float>();
  at::Tensor sums;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    T* const out = device::data<T>(of_values);
    if (device::takes_loops(x)) {
      sums = sums_of_pictures(x, [&](const RowsOfPicture& rows, float* scratch, double* sum) {
        cpu::take_back_gate_rows(wanted + rows.at, in + rows.at, rows.count, x.size(1), affine.channels,
                                 factors + rows.picture * x.size(1), scratch, sum, out + rows.at);
      });
      return;
    }
    with_width<T>(x, {wanted, in, out}, [&](auto width) {
      device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
        sums = sums_of_pictures_on_device(x, device::PictureGradients<T, width, decltype(curve), device::ThroughGate>{
                                                 wanted, in, affine.channels, curve, factors, out});
      });
    });
  });
  return {of_values, sums.to(at::kFloat)};
}

std::pair<at::Tensor, at::Tensor> take_back_means(const at::Tensor& of_values, const at::Tensor& of_means,
                                                  const at::Tensor& x, const Affine& affine) {
  const int64_t depth = x.size(1);
  const at::Tensor of_each = (of_means / (x.size(2) * x.size(3))).contiguous();
  const auto* const offset = of_each.const_data_ptr<float>();
  const at::Tensor of_x = empty_map(x.sizes(), x);
  at::Tensor moments;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(of_values);
    T* const out = device::data<T>(of_x);
    if (device::takes_loops(x)) {
      cpu::TaskSums sums(x.size(0) * cpu::line_tasks(x.size(2)), depth);
      for_rows_of_pictures(x, [&](const RowsOfPicture& rows) {
        std::vector<float> scratch(static_cast<size_t>(2 * depth));
        const auto [sum, product] = sums.begin(rows.task);
        cpu::take_back_offset_rows(wanted + rows.at, offset + rows.picture * depth, in + rows.at, rows.count, depth,
                                   affine.channels, scratch.data(), sum, product, out + rows.at);
      });
      moments = sums.total();
      return;
    }
    with_width<T>(x, {wanted, in, out}, [&](auto width) {
      device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
        moments = parts_of_pictures_on_device(x,
                                              device::PictureGradients<T, width, decltype(curve), device::ThroughMean>{
                                                  wanted, in, affine.channels, curve, offset, out})
                      .flatten(0, 1);
      });
    });
  });
  return {moments, of_x};
}

}  // namespace osprey::kernels
