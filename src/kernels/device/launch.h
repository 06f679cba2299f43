#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/device/kernel.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::device {

namespace detail {

/// The stream of the present device on which libtorch works.
void* current_stream(const at::Device& device);
/// Defined in the file of the kernel, which nvcc compiles.
template <class Kernel>
void run_on_gpu(const Kernel& kernel, int64_t blocks, void* stream);

template <class Kernel>
void run_here(const Kernel& kernel, int64_t blocks) {
  using Shared = typename Kernel::Shared;
  static_assert(std::is_trivially_copyable_v<Shared>, "memory of a block is not constructed");
  const bool last_first = Emulation::turns() == Emulation::Turns::kLastFirst;
  Shared shared;
  for (int64_t turn = 0; turn < blocks; ++turn) {
    std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);  // no numbers, and indices that are none
    kernel(HostBlock<Kernel::kThreads>{last_first ? blocks - 1 - turn : turn, last_first}, shared);
  }
}

}  // namespace detail

/// Starts `blocks` blocks of a kernel on the device of `where`, after whatever was started there before.
template <class Kernel>
void launch(const at::Tensor& where, int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  TORCH_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "too much for one kernel: ", blocks, " blocks");
  if (where.is_cpu()) return detail::run_here(kernel, blocks);
#ifdef OSPREY_HAS_NVCC
  const c10::OptionalDeviceGuard guard(where.device());
  detail::run_on_gpu(kernel, blocks, detail::current_stream(where.device()));
#else
  TORCH_CHECK(false, "this build has no kernels for ", where.device());
#endif
}

/// Calls element(0) .. element(count - 1), in no order: on a CPU by libtorch's threads, on a GPU by `Each`.
template <class Element>
void for_each(const at::Tensor& where, int64_t count, const Element& element) {
  constexpr int64_t kAtATime = 4096;  // enough to be worth a thread's while
  if (!takes_loops(where))
    return launch(where, blocks_for(count, Each<Element>::kThreads), Each<Element>{element, count});
  parallel_for(blocks_for(count, kAtATime), [&](int64_t range) {
    const int64_t first = range * kAtATime, last = std::min(count, first + kAtATime);
    for (int64_t i = first; i < last; ++i) element(i);
  });
}

/// Whether memory begins at a multiple of so many bytes, on which a GPU insists for what it reads or writes at once.
inline bool begins_at_multiple(const void* memory, size_t bytes) {
  return reinterpret_cast<uintptr_t>(memory) % bytes == 0;
}

/// A tensor as one piece of memory that begins where a GPU may read 16 bytes at once; a copy where it does not.
inline at::Tensor aligned(const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  return begins_at_multiple(contiguous.const_data_ptr(), 16) ? contiguous : contiguous.clone();
}

/// The memory of a tensor; null where it is undefined.
template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) : nullptr;
}

}  // namespace osprey::kernels::device
