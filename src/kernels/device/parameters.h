#pragma once
#include "kernels/arithmetic/update.h"
#include "kernels/device/kernel.h"

/// Kernels over many tensors at once.
namespace osprey::kernels::device {

/// So many tensors, each with companions of its shape, as one list of elements. It travels with the arguments of a
/// kernel, for which there are 4 KiB.
template <int kCompanions>
struct TensorTable {
  static constexpr int kCapacity = kCompanions > 1 ? 72 : 128;
  static constexpr int64_t kPerBlock = 4096;
  float* data[kCapacity][kCompanions];
  int64_t counts[kCapacity];
  int32_t last_block[kCapacity];  ///< one beyond those of the tensor
  int32_t size = 0;

  bool full() const { return size == kCapacity; }
  int64_t blocks() const { return size == 0 ? 0 : last_block[size - 1]; }
  /// Adds a tensor; its companions are to be written into data[size - 1].
  void add(int64_t count) {
    counts[size] = count;
    last_block[size] = static_cast<int32_t>(blocks() + blocks_for(count, kPerBlock));
    ++size;
  }

  /// The tensor that a block works on, and its first element there.
  OSPREY_INLINE int find(int64_t block, int64_t& first) const {
    int low = 0, high = size - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (block < last_block[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    first = (block - (low == 0 ? 0 : last_block[low - 1])) * kPerBlock;
    return low;
  }
};

/// Moves every number by a rule. `proceed` may be null; where it is false nothing is touched.
template <class Rule>
struct Update {
  static constexpr int kThreads = 256, kCompanions = 2 + Rule::kSlots;
  using Shared = Nothing;
  using Table = TensorTable<kCompanions>;

  Table table;  ///< values, gradients, slots
  const float* numbers;
  const bool* proceed;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    if (proceed != nullptr && !*proceed) return;
    const Rule rule(numbers);
    int64_t first;
    const int tensor = table.find(block.index, first);
    float* const* const data = table.data[tensor];
    block.run([&](int thread) {
      for (int64_t i = first + thread; i < first + Table::kPerBlock && i < table.counts[tensor]; i += kThreads) {
        float unused = 0;
        rule(data[0][i], data[1][i], Rule::kSlots > 0 ? data[Rule::kSlots > 0 ? 2 : 0][i] : unused,
             Rule::kSlots > 1 ? data[Rule::kSlots > 1 ? 3 : 0][i] : unused);
      }
    });
  }
};

/// The sum of squares of each block's elements, in double.
struct SquareSums {
  static constexpr int kThreads = 256;
  using Table = TensorTable<1>;
  struct Shared {
    double sums[kThreads];
  };
  Table table;
  double* sums;  ///< [blocks]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    int64_t first;
    const int tensor = table.find(block.index, first);
    const float* const values = table.data[tensor][0];
    double* const partial = shared.sums;
    block.run([&](int thread) {
      double sum = 0;
      for (int64_t i = first + thread; i < first + Table::kPerBlock && i < table.counts[tensor]; i += kThreads)
        sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      partial[thread] = sum;
    });
    reduce<kThreads>(block, partial, Add{});
    block.run([&](int thread) {
      if (thread == 0) sums[block.index] = partial[0];
    });
  }

 private:
  struct Add {
    OSPREY_INLINE double operator()(double a, double b) const { return a + b; }
  };
};

/// The root of the sum of what `SquareSums` found of each tensor. A block per tensor.
struct Norms {
  static constexpr int kThreads = 1;
  using Shared = Nothing;
  SquareSums::Table table;
  const double* sums;
  double* norms;  ///< [tensors of the table]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int) {
      double sum = 0;
      for (int64_t i = block.index == 0 ? 0 : table.last_block[block.index - 1]; i < table.last_block[block.index]; ++i)
        sum += sums[i];
      norms[block.index] = std::sqrt(sum);
    });
  }
};

/// Multiplies each tensor by its own factor.
struct Scale {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  using Table = TensorTable<1>;
  Table table;
  const float* factors;  ///< [tensors of the table]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    int64_t first;
    const int tensor = table.find(block.index, first);
    float* const values = table.data[tensor][0];
    block.run([&](int thread) {
      for (int64_t i = first + thread; i < first + Table::kPerBlock && i < table.counts[tensor]; i += kThreads)
        values[i] *= factors[tensor];
    });
  }
};

}  // namespace osprey::kernels::device
