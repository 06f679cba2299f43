#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/batch_norm.h"
#include "kernels/device/channels.h"
#include "kernels/device/launch.h"
#include "osprey/kernels/parallel.h"

/// How loops for CPUs and kernels for devices pass over a map of channels_last.
namespace osprey::kernels {

/// A map as rows of channels, in blocks that do not depend on the number of threads.
struct MapRows {
  explicit MapRows(const at::Tensor& x)
      : depth(x.size(1)),
        count(x.numel() / x.size(1)),
        blocks(std::clamp<int64_t>(count * depth / 32768, 1, 64)),
        per_block((count + blocks - 1) / blocks) {}
  int64_t depth, count, blocks, per_block;

  template <class Work>  // work(block, first row, number of rows)
  void for_each_block(Work work) const {
    parallel_for(blocks, [&](int64_t block) {
      const int64_t first = std::min(count, block * per_block), last = std::min(count, first + per_block);
      work(block, first, last - first);
    });
  }
};

/// Two sums per channel, gathered by blocks and then in their order: [2, C] float64.
template <class Work>  // work(first row, number of rows, scratch, sum, other)
at::Tensor column_sums(const MapRows& rows, Work work) {
  cpu::TaskSums parts(rows.blocks, rows.depth);
  rows.for_each_block([&](int64_t block, int64_t first, int64_t number) {
    std::vector<float> scratch(static_cast<size_t>(2 * rows.depth));
    const auto [sum, other] = parts.begin(block);
    work(first, number, scratch.data(), sum, other);
  });
  return parts.total();
}

/// The same by a kernel for devices, as it leaves them: [parts, 2, C].
template <class Element>
at::Tensor column_sums_on_device(const at::Tensor& x, const Element& element) {
  using Sums = device::ColumnSums<Element>;
  const int64_t depth = x.size(1);
  const device::RowShares<Element::kWidth> shares(x.numel() / depth, depth, Sums::kMostBlocks, Sums::kLeastRows);
  const at::Tensor parts = at::empty({shares.row_blocks, 2, depth}, x.options().dtype(at::kDouble));
  device::launch(x, shares.blocks(), Sums{element, shares, parts.mutable_data_ptr<double>()});
  return parts;
}

/// Calls finish(channel, sum, other) with the sums of each channel.   sums  [2, C] or in parts, [parts, 2, C]
template <class Finish>
void finish_sums(const at::Tensor& sums, const Finish& finish) {
  const int64_t parts = sums.dim() == 3 ? sums.size(0) : 1, depth = sums.size(-1);
  const auto* const numbers = sums.const_data_ptr<double>();
  if (device::takes_loops(sums)) {  // which leave no parts
    for (int64_t c = 0; c < depth; ++c) finish(c, numbers[c], numbers[depth + c]);
    return;
  }
  const device::AddParts<Finish> add{numbers, parts, depth, finish};
  device::launch(sums, add.blocks(), add);
}

/// Calls run(width) with how many neighbouring channels a kernel may read at once, of maps like x.
template <class T, class Run>
void with_width(const at::Tensor& x, std::initializer_list<const T*> maps, Run run) {
  constexpr int kWide = 16 / sizeof(T);  // what a GPU reads fastest; it insists on addresses that are multiples
  const bool wide = x.size(1) % kWide == 0 && std::ranges::all_of(maps, [](const T* map) {
                      return device::begins_at_multiple(map, kWide * sizeof(T));
                    });
  wide ? run(std::integral_constant<int, kWide>()) : run(std::integral_constant<int, 1>());
}

/// How a pass over a map is shared by threads of a device.
template <int kWidth>
device::RowShares<kWidth> shares_of_pass(const at::Tensor& x) {
  return {x.numel() / x.size(1), x.size(1), device::kBlocksOfPass};
}

/// curve((x - mean) * scale + shift + addend) by a kernel for devices.   addend  may be null
template <class T>
void normalize_on_device(const at::Tensor& x, const Affine& affine, const T* addend, const at::Tensor& y) {
  const T* in = device::data<const T>(x);
  T* const out = device::data<T>(y);
  with_width<T>(x, {in, addend, out}, [&](auto width) {
    device::with_curve_of_kernel<width>(affine.channels.epilogue, [&](auto curve) {
      const device::Normalize<T, width, decltype(curve)> normalize{shares_of_pass<width>(x), in,    addend,
                                                                   affine.channels,          curve, out};
      device::launch(x, normalize.shares.blocks(), normalize);
    });
  });
}

}  // namespace osprey::kernels
