#pragma once
#include <cstdint>

#include "kernels/arithmetic/inline.h"

/// Kernels of a GPU, written so that a CPU can run them, too: that is how tests try them where there is no GPU.
///
/// A kernel is a type. Its members are the arguments (numbers and pointers to memory of the device), and it has
///
///     static constexpr int kThreads;   // of a block
///     static constexpr int kAtOnce;    // blocks of a multiprocessor, for which registers have to suffice; may be left out
///     struct Shared;                   // memory of a block; trivial
///     template <class Block>
///     OSPREY_INLINE void operator()(const Block& block, Shared& shared) const;
///
/// In there, `block.index` says which block it is, and `block.run(work)` calls work(thread) for every thread of the
/// block; what one `run` has written the next one sees. Whatever a thread has to remember from one to the next lies in
/// `shared`.
namespace osprey::kernels::device {

/// A block on the CPU: its threads take turns.
template <int kThreads>
struct HostBlock {
  int64_t index;
  bool last_first;  ///< whether the last thread has the first turn

  template <class Work>
  void run(Work work) const {
    for (int turn = 0; turn < kThreads; ++turn) work(last_first ? kThreads - 1 - turn : turn);
  }
  /// *at becomes the larger of itself and `value`, whoever else does so at the same time.
  static void raise(unsigned long long* at, unsigned long long value) { *at = *at < value ? value : *at; }
  /// *at becomes the smaller of the two.
  static void lower(int* at, int value) { *at = value < *at ? value : *at; }
  /// Adds to *at.  returns  what was there before
  static int add(int* at, int value) { return (*at += value) - value; }
};

#ifdef __CUDACC__
/// A block on the GPU.
struct DeviceBlock {
  int64_t index;

  template <class Work>
  __device__ __forceinline__ void run(Work work) const {
    work(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  static __device__ __forceinline__ void raise(unsigned long long* at, unsigned long long value) {
    // It only grows, and most values come too late: looking first spares their turns.
    if (*static_cast<volatile unsigned long long*>(at) < value) atomicMax(at, value);
  }
  static __device__ __forceinline__ void lower(int* at, int value) { atomicMin(at, value); }
  static __device__ __forceinline__ int add(int* at, int value) { return atomicAdd(at, value); }
};
#endif

/// For kernels that need no memory of the block.
struct Nothing {};

/// `values[0]` becomes `take` of values[0] .. values[kThreads - 1], always in the same order.  kThreads  a power of two
template <int kThreads, class Block, class T, class Take>
OSPREY_INLINE void reduce(const Block& block, T* values, Take take) {
  for (int half = kThreads / 2; half > 0; half /= 2)
    block.run([=](int thread) {
      if (thread < half) values[thread] = take(values[thread], values[thread + half]);
    });
}

/// How many blocks of `size` cover `count`.
OSPREY_INLINE int64_t blocks_for(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// A number that many others are divided by. Below 2^31 that is a multiplication, by a number which is found here once:
/// a GPU has no instruction that divides, and what stands for one takes twenty. (Granlund and Montgomery, PLDI 1994)
class Divisor {
 public:
  /// size  up to 2^31; 0 where there is nothing to divide
  Divisor(int64_t size) : size_(size) {  // NOLINT(google-explicit-constructor): a number as any other
    while ((int64_t{1} << shift_) < size) ++shift_;
    if (size > 0) multiplier_ = static_cast<uint32_t>((uint64_t{1} << (31 + shift_)) / static_cast<uint64_t>(size) + 1);
  }
  OSPREY_INLINE operator int64_t() const { return size_; }  // NOLINT(google-explicit-constructor)
  /// index  not negative; of 32 bits where it is known to be that small, which leaves no division for others
  template <class Index>
  OSPREY_INLINE Index quotient(Index index) const {
    if constexpr (sizeof(Index) > sizeof(int32_t))
      if ((index >> 31) != 0) return index / size_;
    return static_cast<Index>(static_cast<uint64_t>(static_cast<uint32_t>(index)) * multiplier_ >> (31 + shift_));
  }

 private:
  int64_t size_;
  uint32_t multiplier_ = 0;
  int shift_ = 0;
};

/// index / size and what is left of it.
template <class Index>
struct Split {
  Index quotient, rest;
  OSPREY_INLINE Split(Index index, const Divisor& size)
      : quotient(size.quotient(index)), rest(index - quotient * static_cast<Index>(static_cast<int64_t>(size))) {}
};

/// Calls element(0) .. element(count - 1), each by a thread of its own. `Element` holds the arguments.
template <class Element>
struct Each {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  Element element;
  int64_t count;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      if (const int64_t i = block.index * kThreads + thread; i < count) element(i);
    });
  }
};

}  // namespace osprey::kernels::device
