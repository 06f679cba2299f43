#pragma once
#include "kernels/arithmetic/update.h"
#include "kernels/device/map_rows.h"

/// Kernels over many tensors at once.
namespace osprey::kernels::device {

constexpr int64_t kArguments = 4096 - 128;  ///< bytes of a kernel's arguments that a list may have

/// So many tensors, each with companions of its shape, as one list of elements. It travels with the arguments of a
/// kernel.
template <int kCompanions>
struct TensorTable {
  static constexpr int kCapacity = kArguments / (kCompanions * sizeof(float*) + sizeof(int32_t) + sizeof(uint16_t));
  static constexpr int64_t kPerBlock = 4096;
  float* data[kCapacity][kCompanions];
  int32_t last_block[kCapacity];  ///< one beyond those of the tensor
  uint16_t in_last[kCapacity];    ///< elements of its last block
  int32_t size = 0;

  static int64_t blocks_of(int64_t count) { return blocks_for(count, kPerBlock); }
  bool full() const { return size == kCapacity; }
  int64_t blocks() const { return size == 0 ? 0 : last_block[size - 1]; }
  /// Adds a tensor; its companions are to be written into data[size - 1].
  void add(int64_t count) {
    const int64_t own = blocks_of(count);
    in_last[size] = static_cast<uint16_t>(count - (own - 1) * kPerBlock);
    last_block[size] = static_cast<int32_t>(blocks() + own);
    ++size;
  }

  /// What a block works on: elements of a tensor.
  struct Share {
    int tensor;
    int64_t first, last;
    bool aligned;  ///< all companions begin at multiples of 16 bytes
  };
  OSPREY_INLINE Share find(int64_t block) const {
    int low = 0, high = size - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (block < last_block[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const int64_t first = (block - (low == 0 ? 0 : last_block[low - 1])) * kPerBlock;
    uintptr_t bits = 0;
    OSPREY_UNROLL
    for (int c = 0; c < kCompanions; ++c) bits |= reinterpret_cast<uintptr_t>(data[low][c]);
    return {low, first, first + (block + 1 == last_block[low] ? in_last[low] : kPerBlock), bits % 16 == 0};
  }
};

/// Calls work(i, read(i)) for the elements of a share that are a thread's, from i on kWidth at once. `kAhead` times
/// that are read before the first of them is worked on, so that they are on their way from memory together.
/// returns  the first element that is left: fewer than all threads take together
template <int kWidth, int kAhead, int kThreads, class Read, class Work>
OSPREY_INLINE int64_t for_whole_rounds(int thread, int64_t first, int64_t last, const Read& read, const Work& work) {
  constexpr int kStep = kWidth * kThreads;
  for (; first + kAhead * kStep <= last; first += kAhead * kStep) {
    decltype(read(std::integral_constant<int, kWidth>(), int64_t{})) numbers[kAhead];
    const int64_t own = first + kWidth * thread;
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k) numbers[k] = read(std::integral_constant<int, kWidth>(), own + k * kStep);
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k) work(own + k * kStep, numbers[k]);
  }
  return first;
}

/// The same for all of them, four at once as far as that goes: read(width, i), work(i, numbers).
template <int kAhead, int kThreads, class Share, class Read, class Work>
OSPREY_INLINE void for_elements(int thread, const Share& share, const Read& read, const Work& work) {
  int64_t first = share.first;
  if (share.aligned) {
    first = for_whole_rounds<4, kAhead, kThreads>(thread, first, share.last, read, work);
    if constexpr (kAhead > 1) first = for_whole_rounds<4, 1, kThreads>(thread, first, share.last, read, work);
  }
  first = for_whole_rounds<1, 4, kThreads>(thread, first, share.last, read, work);
  for (int64_t i = first + thread; i < share.last; i += kThreads) work(i, read(std::integral_constant<int, 1>(), i));
}

/// Neighbours of a tensor and of its companions.
template <int kWidth, int kCompanions>
struct Companions {
  Vector<float, kWidth> of[kCompanions];
};

/// Moves every number by a rule. `proceed` may be null; where it is false nothing is touched.
template <class Rule>
struct Update {
  static constexpr int kThreads = 256, kAhead = 1, kCompanions = 2 + Rule::kSlots;
  using Shared = Nothing;
  using Table = TensorTable<kCompanions>;

  Table table;  ///< values, gradients, slots
  const float* numbers;
  const bool* proceed;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    if (proceed != nullptr && !*proceed) return;
    const Rule rule(numbers);
    const auto share = table.find(block.index);
    float* const* const data = table.data[share.tensor];
    block.run([&](int thread) {
      for_elements<kAhead, kThreads>(
          thread, share,
          [&](auto width, int64_t i) {
            Companions<width, kCompanions> all;
            OSPREY_UNROLL
            for (int c = 0; c < kCompanions; ++c) all.of[c] = read<width>(data[c] + i);
            return all;
          },
          [&]<int kWidth>(int64_t i, const Companions<kWidth, kCompanions>& all) {
            float results[4][kWidth];  // value, gradient, slots
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) {
              OSPREY_UNROLL
              for (int c = 0; c < 4; ++c) results[c][k] = c < kCompanions ? all.of[c < kCompanions ? c : 0][k] : 0;
              rule(results[0][k], results[1][k], results[2][k], results[3][k]);
            }
            OSPREY_UNROLL
            for (int c = 0; c < kCompanions; ++c)
              if (c != 1) write(data[c] + i, results[c]);
          });
    });
  }
};

struct Add {
  OSPREY_INLINE double operator()(double a, double b) const { return a + b; }
};

OSPREY_INLINE double square(float number) { return static_cast<double>(number) * static_cast<double>(number); }

/// The sum of squares of each block's elements, in double.
struct SquareSums {
  static constexpr int kThreads = 256, kAhead = 4;
  using Table = TensorTable<1>;
  struct Shared {
    double sums[kThreads];
  };
  Table table;
  double* sums;  ///< [blocks]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const auto share = table.find(block.index);
    const float* const values = table.data[share.tensor][0];
    double* const partial = shared.sums;
    block.run([&](int thread) {
      double sum = 0;
      for_elements<kAhead, kThreads>(
          thread, share, [&](auto width, int64_t i) { return read<width>(values + i); },
          [&]<int kWidth>(int64_t, const Vector<float, kWidth>& numbers) {
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) sum += square(numbers[k]);
          });
      partial[thread] = sum;
    });
    reduce<kThreads>(block, partial, Add{});
    block.run([&](int thread) {
      if (thread == 0) sums[block.index] = partial[0];
    });
  }
};

/// Puts all gradients through a rule and leaves the sum of squares of each block's results and the penalties on its
/// values, in double.
struct FinishGradients {
  static constexpr int kThreads = 256, kAhead = 4;
  using Table = TensorTable<2>;
  struct Shared {
    double sums[kThreads], penalties[kThreads];
  };
  Table table;             ///< gradients, values
  const float* penalties;  ///< [tensors of the table, 2]
  const float* divisor;    ///< null: 1
  double* sums;            ///< [blocks], of squares
  double* penalty_sums;    ///< [blocks]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const auto share = table.find(block.index);
    float* const gradients = table.data[share.tensor][0];
    const float* const values = table.data[share.tensor][1];
    const GradientRule rule{divisor != nullptr ? *divisor : 1.0f, penalties[2 * share.tensor],
                            penalties[2 * share.tensor + 1]};
    const bool penalises = rule.penalises();
    double *const partial = shared.sums, *const of_values = shared.penalties;
    block.run([&](int thread) {
      double sum = 0, penalty = 0;
      for_elements<kAhead, kThreads>(
          thread, share,
          [&](auto width, int64_t i) {
            const Vector<float, width> gradient = read<width>(gradients + i);
            return Companions<width, 2>{{gradient, penalises ? read<width>(values + i) : gradient}};
          },
          [&]<int kWidth>(int64_t i, const Companions<kWidth, 2>& all) {
            float results[kWidth];
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) {
              results[k] = penalises ? rule(all.of[0][k], all.of[1][k]) : rule(all.of[0][k]);
              sum += square(results[k]);
              if (penalises) penalty += rule.penalty(all.of[1][k]);
            }
            write(gradients + i, results);
          });
      partial[thread] = sum;
      of_values[thread] = penalty;
    });
    reduce<kThreads>(block, partial, Add{});
    reduce<kThreads>(block, of_values, Add{});
    block.run([&](int thread) {
      if (thread != 0) return;
      sums[block.index] = partial[0];
      penalty_sums[block.index] = of_values[0];
    });
  }
};

/// The root of the sum of what was found of the blocks of each tensor. A block per tensor.
struct Norms {
  static constexpr int kThreads = 128, kCapacity = kArguments / sizeof(int32_t);
  struct Shared {
    double sums[kThreads];
  };
  const double* sums;  ///< of the blocks of the first tensor, and so on
  double* norms;       ///< of tensors
  int32_t size = 0;
  int32_t last_block[kCapacity] = {};  ///< one beyond those of the tensor

  bool full() const { return size == kCapacity; }
  int32_t blocks() const { return size == 0 ? 0 : last_block[size - 1]; }
  void add(int64_t blocks_of_tensor) {
    const auto last = static_cast<int32_t>(blocks() + blocks_of_tensor);
    last_block[size++] = last;
  }
  /// For the tensors after these.
  Norms next() const { return {sums + blocks(), norms + size}; }

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t first = block.index == 0 ? 0 : last_block[block.index - 1], last = last_block[block.index];
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
    const auto share = table.find(block.index);
    float* const values = table.data[share.tensor][0];
    const float factor = factors[share.tensor];
    block.run([&](int thread) {
      for_elements<kAhead, kThreads>(
          thread, share, [&](auto width, int64_t i) { return read<width>(values + i); },
          [&]<int kWidth>(int64_t i, const Vector<float, kWidth>& numbers) {
            float results[kWidth];
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) results[k] = numbers[k] * factor;
            write(values + i, results);
          });
    });
  }
};

}  // namespace osprey::kernels::device
