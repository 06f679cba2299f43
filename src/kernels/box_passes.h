#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "kernels/device/boxes.h"
#include "kernels/device/launch.h"
#include "osprey/kernels/parallel.h"

/// How loops for CPUs and kernels for devices pass over the anchors of images.
namespace osprey::kernels {

/// Does the work of `rows`, of which `device::EachAnchor` says what it is, on each anchor of each image, by the threads
/// of the CPU.
template <class Rows>
void loop_over_anchors(int64_t images, int64_t A, const Rows& rows) {
  constexpr int64_t kAtATime = 4096;  // enough to be worth a thread's while
  const int64_t ranges = device::blocks_for(A, kAtATime);
  parallel_for(images * ranges, [&](int64_t task) {
    const int64_t image = task / ranges, first = task % ranges * kAtATime, last = std::min(A, first + kAtATime);
    for (int64_t a = first; a < last; ++a) rows.write(image * A + a, rows.anchor(a), rows.read(image * A + a, image));
  });
}

/// The same by loops or by a kernel.
template <class Rows>
void for_each_anchor(const at::Tensor& where, int64_t images, int64_t A, const Rows& rows) {
  if (device::takes_loops(where)) return loop_over_anchors(images, A, rows);
  const device::EachAnchor<Rows> kernel{rows, images, A};
  device::launch(where, kernel.blocks(), kernel);
}

}  // namespace osprey::kernels
