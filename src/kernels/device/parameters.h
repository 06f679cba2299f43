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
  /// Where the elements of a block that begins there end.
  OSPREY_INLINE int64_t end(int tensor, int64_t first) const {
    return first + kPerBlock < counts[tensor] ? first + kPerBlock : counts[tensor];
  }
};

/// Calls load(k, i), then work(k, i) for the elements of a block from `first` on that are a thread's, `kAhead` of them
/// at a time: so many are on their way from memory together.
template <int kAhead, int kThreads, class Load, class Work>
OSPREY_INLINE void for_elements(int thread, int64_t first, int64_t last, Load load, Work work) {
  for (int64_t from = first + thread; from < last; from += kAhead * kThreads) {
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k)
      if (from + k * kThreads < last) load(k, from + k * kThreads);
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k)
      if (from + k * kThreads < last) work(k, from + k * kThreads);
  }
}

/// Moves every number by a rule. `proceed` may be null; where it is false nothing is touched.
template <class Rule>
struct Update {
  static constexpr int kThreads = 256, kAhead = 4, kCompanions = 2 + Rule::kSlots;
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
      float numbers_of[kAhead][4] = {};  // value, gradient, slots
      for_elements<kAhead, kThreads>(
          thread, first, table.end(tensor, first),
          [&](int k, int64_t i) {
            OSPREY_UNROLL
            for (int c = 0; c < kCompanions; ++c) numbers_of[k][c] = data[c][i];
          },
          [&](int k, int64_t i) {
            auto& [value, gradient, first_slot, second_slot] = numbers_of[k];
            rule(value, gradient, first_slot, second_slot);
            data[0][i] = value;
            OSPREY_UNROLL
            for (int c = 2; c < kCompanions; ++c) data[c][i] = numbers_of[k][c];
          });
    });
  }
};

struct Add {
  OSPREY_INLINE double operator()(double a, double b) const { return a + b; }
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
      for (int64_t i = first + thread; i < table.end(tensor, first); i += kThreads)
        sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      partial[thread] = sum;
    });
    reduce<kThreads>(block, partial, Add{});
    block.run([&](int thread) {
      if (thread == 0) sums[block.index] = partial[0];
    });
  }
};

/// Puts all gradients through a rule and leaves the sum of squares of each block's results, in double.
struct FinishGradients {
  static constexpr int kThreads = 256, kAhead = 4;
  using Table = TensorTable<2>;
  struct Shared {
    double sums[kThreads];
  };
  Table table;             ///< gradients, values
  const float* penalties;  ///< [tensors of the table, 2]
  const float* divisor;    ///< null: 1
  double* sums;            ///< [blocks]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    int64_t first;
    const int tensor = table.find(block.index, first);
    float* const gradients = table.data[tensor][0];
    const float* const values = table.data[tensor][1];
    const GradientRule rule{divisor != nullptr ? *divisor : 1.0f, penalties[2 * tensor], penalties[2 * tensor + 1]};
    const bool penalises = rule.penalises();
    double* const partial = shared.sums;
    block.run([&](int thread) {
      float gradient[kAhead] = {}, value[kAhead] = {};
      double sum = 0;
      for_elements<kAhead, kThreads>(
          thread, first, table.end(tensor, first),
          [&](int k, int64_t i) {
            gradient[k] = gradients[i];
            if (penalises) value[k] = values[i];
          },
          [&](int k, int64_t i) {
            const float result = penalises ? rule(gradient[k], value[k]) : rule(gradient[k]);
            gradients[i] = result;
            sum += static_cast<double>(result) * static_cast<double>(result);
          });
      partial[thread] = sum;
    });
    reduce<kThreads>(block, partial, Add{});
    block.run([&](int thread) {
      if (thread == 0) sums[block.index] = partial[0];
    });
  }
};

/// The root of the sum of what was found of the blocks of each tensor. A block per tensor.
/// Table  of the kernel that left the sums
template <class Table>
struct Norms {
  static constexpr int kThreads = 128;
  struct Shared {
    double sums[kThreads];
  };
  Table table;
  const double* sums;
  double* norms;  ///< [tensors of the table]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t first = block.index == 0 ? 0 : table.last_block[block.index - 1],
                  last = table.last_block[block.index];
    double* const partial = shared.sums;
    block.run([&](int thread) {
      double sum = 0;
      for (int64_t i = first + thread; i < last; i += kThreads) sum += sums[i];
      partial[thread] = sum;
    });
    reduce<kThreads>(block, partial, Add{});
    block.run([&](int thread) {
      if (thread == 0) norms[block.index] = std::sqrt(partial[0]);
    });
  }
};

/// Multiplies each tensor by its own factor.
struct Scale {
  static constexpr int kThreads = 256, kAhead = 4;
  using Shared = Nothing;
  using Table = TensorTable<1>;
  Table table;
  const float* factors;  ///< [tensors of the table]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    int64_t first;
    const int tensor = table.find(block.index, first);
    float* const values = table.data[tensor][0];
    const float factor = factors[tensor];
    block.run([&](int thread) {
      float numbers[kAhead] = {};
      for_elements<kAhead, kThreads>(
          thread, first, table.end(tensor, first), [&](int k, int64_t i) { numbers[k] = values[i]; },
          [&](int k, int64_t i) { values[i] = numbers[k] * factor; });
    });
  }
};

}  // namespace osprey::kernels::device
