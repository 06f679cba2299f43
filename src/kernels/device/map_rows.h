#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/arithmetic/number.h"
#include "kernels/device/kernel.h"

/// Maps as rows of channels, the form that those of channels_last have in memory, and how threads share them.
namespace osprey::kernels::device {

/// Neighbours in memory, which a thread reads or writes at once. Numbers of two bytes stay in pairs: taken apart in
/// registers, they would be put together again to be copied.
template <class T, int kWidth>
class alignas(kWidth * sizeof(T)) Vector {
 public:
  Vector() = default;
  OSPREY_INLINE explicit Vector(const float (&values)[kWidth]) {
    OSPREY_UNROLL
    for (int i = 0; i < kElements; ++i) {
      if constexpr (kPaired) {
        T low, high;
        store(&low, values[2 * i]);
        store(&high, values[2 * i + 1]);
        elements_[i] = low.bits | static_cast<uint32_t>(high.bits) << 16;
      } else {
        store(elements_ + i, values[i]);
      }
    }
  }
  OSPREY_INLINE float operator[](int k) const {
    if constexpr (kPaired) {
      const T number{static_cast<uint16_t>(elements_[k / 2] >> (k % 2 * 16))};
      return load(&number);
    } else {
      return load(elements_ + k);
    }
  }

 private:
  static constexpr bool kPaired = sizeof(T) == 2 && kWidth % 2 == 0;
  static constexpr int kElements = kPaired ? kWidth / 2 : kWidth;
  std::conditional_t<kPaired, uint32_t, T> elements_[kElements];
};

#ifndef __CUDA_ARCH__
[[noreturn]] inline void refuse_address() {
  throw std::logic_error("a GPU reads and writes at once only what begins at a multiple of its size");
}
#endif

/// That `at` is where a GPU may read or write a Piece at once, which a CPU that runs the kernel would do anywhere.
template <class Piece>
OSPREY_INLINE void expect_border(const void* at) {
#ifndef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(at) % sizeof(Piece) != 0) refuse_address();
#endif
}

/// at  on a border of as many bytes as are read or written
template <int kWidth, class T>
OSPREY_INLINE Vector<T, kWidth> read(const T* at) {
  expect_border<Vector<T, kWidth>>(at);
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Vector<T, kWidth>*>(at);
#else
  Vector<T, kWidth> vector;
  std::memcpy(static_cast<void*>(&vector), at, sizeof vector);
  return vector;
#endif
}
template <int kWidth, class T>
OSPREY_INLINE void write(T* at, const Vector<T, kWidth>& vector) {
  expect_border<Vector<T, kWidth>>(at);
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Vector<T, kWidth>*>(at) = vector;
#else
  std::memcpy(at, &vector, sizeof vector);
#endif
}
template <int kWidth, class T>
OSPREY_INLINE void write(T* at, const float (&values)[kWidth]) {
  write(at, Vector<T, kWidth>(values));
}

/// `kWidth` numbers of neighbouring channels, as a thread keeps them at hand.
template <int kWidth>
class OfChannels {
 public:
  /// first  where kWidth is a multiple of 4, on a border of 16 bytes
  OSPREY_INLINE explicit OfChannels(const float* first) {
    OSPREY_UNROLL
    for (int i = 0; i < kWidth / kAtOnce; ++i) values_[i] = read<kAtOnce>(first + i * kAtOnce);
  }
  OSPREY_INLINE float operator[](int k) const { return values_[k / kAtOnce][k % kAtOnce]; }

 private:
  static constexpr int kAtOnce = kWidth % 4 == 0 ? 4 : 1;
  Vector<float, kAtOnce> values_[kWidth / kAtOnce];
};

/// What passes over a map once and leaves another: so many blocks that the last ones to run are few of them.
constexpr int64_t kBlocksOfPass = 8192;

/// How the rows of a map are shared. A thread has `kWidth` neighbouring channels, whose parameters it reads once, and
/// of the rows of its block every lanes-th one; threads side by side have the channels side by side.
template <int kWidth, int kThreadsOf = 256>
struct RowShares {
  static constexpr int kThreads = kThreadsOf;
  static constexpr int kMostColumns = 32;  ///< side by side: with 16 bytes each, four lines of a cache

  /// depth        a multiple of kWidth
  /// most_blocks  at which blocks get more rows instead of becoming more
  /// least_rows   of a thread, which has a multiple of so many: a few, where it reads parameters first, and as many as
  ///              it reads ahead
  RowShares(int64_t map_rows, int64_t map_depth, int64_t most_blocks, int64_t least_rows = 4)
      : rows(map_rows), depth(map_depth) {
    const int64_t vectors = depth / kWidth;
    column_blocks = static_cast<int>(blocks_for(vectors, kMostColumns));
    columns = static_cast<int>(blocks_for(vectors, column_blocks));
    lanes = kThreads / columns;
    const int64_t of_all = blocks_for(rows, blocks_for(most_blocks, column_blocks));
    rows_of_block = blocks_for(of_all > 0 ? of_all : 1, lanes * least_rows) * lanes * least_rows;
    row_blocks = blocks_for(rows, rows_of_block);
  }

  int64_t rows, depth, rows_of_block, row_blocks;
  int column_blocks, columns, lanes;

  OSPREY_INLINE int64_t blocks() const { return row_blocks * column_blocks; }
  OSPREY_INLINE int64_t row_block(int64_t block) const { return block / column_blocks; }
  /// How many rows a block has.
  OSPREY_INLINE int64_t rows_of(int64_t block) const {
    const int64_t first = row_block(block) * rows_of_block;
    return (first + rows_of_block < rows ? first + rows_of_block : rows) - first;
  }

  struct Share {
    int64_t channel;  ///< the first one; -1: this thread has nothing to do
    int64_t row;      ///< the first one; the next is `lanes` further
    int64_t at;       ///< the first element, counted in the map
    int64_t step;     ///< elements from one row to the next
    int64_t count;    ///< rows
  };
  /// The first channel of a column of a block; -1: there is none.
  OSPREY_INLINE int64_t channel_of(int64_t block, int column) const {
    const int64_t channel = (block % column_blocks * columns + column) * kWidth;
    return channel < depth ? channel : -1;
  }
  OSPREY_INLINE Share of(int64_t block, int thread) const {
    const int lane = thread / columns;
    const int64_t channel = channel_of(block, thread % columns);
    if (lane >= lanes || channel < 0) return {-1, 0, 0, 0, 0};
    const int64_t row = row_block(block) * rows_of_block + lane, mine = rows_of(block) - lane;
    return {channel, row, row * depth + channel, lanes * depth, mine > 0 ? (mine + lanes - 1) / lanes : 0};
  }
};

/// Goes through the rows of a share: read(element) -> what a row is made of, work(element, what has been read).
/// `kAhead` rows are read before the first of them is worked on, so that they are on their way together.
template <int kAhead, class Share, class Read, class Work>
OSPREY_INLINE void for_rows(const Share& share, int64_t first, int64_t last, Read read, Work work) {
  int64_t row = first;
  for (; row + kAhead <= last; row += kAhead) {
    decltype(read(int64_t{})) rows[kAhead];
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k) rows[k] = read(share.at + (row + k) * share.step);
    OSPREY_UNROLL
    for (int k = 0; k < kAhead; ++k) work(share.at + (row + k) * share.step, rows[k]);
  }
  for (; row < last; ++row) work(share.at + row * share.step, read(share.at + row * share.step));
}

}  // namespace osprey::kernels::device
