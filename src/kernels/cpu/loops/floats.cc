#include "kernels/cpu/loops/floats.h"

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/lanes.h"

namespace osprey::kernels::cpu {
namespace {

typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t kWidth = 8;

OSPREY_INLINE void move_lanes(const float* from, float* to) {
  *reinterpret_cast<Lanes*>(to) = *reinterpret_cast<const Lanes*>(from);
}

OSPREY_INLINE void copy_pieces(const float* from, int64_t from_step, int64_t pieces, int64_t size, float* to,
                               int64_t to_step) {
  for (int64_t piece = 0; piece < pieces; ++piece, from += from_step, to += to_step) {
    if (size < kWidth) {
      for (int64_t i = 0; i < size; ++i) to[i] = from[i];
      continue;
    }
    for (int64_t i = 0; i + kWidth < size; i += kWidth) move_lanes(from + i, to + i);
    move_lanes(from + size - kWidth, to + size - kWidth);  // some of them again rather than one by one
  }
}

template <class Numbers>
OSPREY_INLINE void widen_pieces(const typename Numbers::Element* from, int64_t from_step, int64_t pieces, int64_t size,
                                float* to, int64_t to_step) {
  for (int64_t piece = 0; piece < pieces; ++piece, from += from_step, to += to_step)
    for_lanes<Numbers>(
        size, [=]<class N>(int64_t i) __attribute__((always_inline)) { FloatsLike<N>::put(N::get(from + i), to + i); });
}

template <class T>
OSPREY_INLINE void round_piece(const float* __restrict from, int64_t size, T* __restrict to) {
  for (int64_t i = 0; i < size; ++i) store(to + i, from[i]);
}

template <class Numbers>
OSPREY_INLINE void round_pieces(const float* from, int64_t from_step, int64_t pieces, int64_t size,
                                typename Numbers::Element* to, int64_t to_step) {
  constexpr int64_t kAtOnce = Numbers::kLanes;
  for (int64_t piece = 0; piece < pieces; ++piece, from += from_step, to += to_step) {
    int64_t i = 0;
    for (; i + kAtOnce <= size; i += kAtOnce) Numbers::put(Singles<kAtOnce>::get(from + i), to + i);
    round_piece(from + i, size - i, to + i);
  }
}

OSPREY_INLINE void scale_each_row(const float* from, const float* factors, int64_t rows, int64_t size, float* to) {
  for (int64_t row = 0; row < rows; ++row, from += size, to += size) {
    const float factor = factors[row];
    for (int64_t i = 0; i < size; ++i) to[i] = from[i] * factor;
  }
}

OSPREY_INLINE void add_piece(const float* from, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] += from[i];
}

}  // namespace

OSPREY_DISPATCH(copy_floats, copy_pieces,
                (const float* from, int64_t from_step, int64_t pieces, int64_t size, float* to, int64_t to_step), from,
                from_step, pieces, size, to, to_step)

OSPREY_DISPATCH_PAIRS(copy_floats, widen_pieces,
                      (const Bfloat16* from, int64_t from_step, int64_t pieces, int64_t size, float* to,
                       int64_t to_step),
                      from, from_step, pieces, size, to, to_step)
OSPREY_DISPATCH_HALVES(copy_floats, widen_pieces,
                       (const Float16* from, int64_t from_step, int64_t pieces, int64_t size, float* to,
                        int64_t to_step),
                       from, from_step, pieces, size, to, to_step)
OSPREY_DISPATCH_HALVES(round_floats, round_pieces,
                       (const float* from, int64_t from_step, int64_t pieces, int64_t size, Float16* to,
                        int64_t to_step),
                       from, from_step, pieces, size, to, to_step)
OSPREY_DISPATCH_PAIRS(round_floats, round_pieces,
                      (const float* from, int64_t from_step, int64_t pieces, int64_t size, Bfloat16* to,
                       int64_t to_step),
                      from, from_step, pieces, size, to, to_step)

OSPREY_DISPATCH(scale_rows, scale_each_row,
                (const float* from, const float* factors, int64_t rows, int64_t size, float* to), from, factors, rows,
                size, to)

OSPREY_DISPATCH(add_floats, add_piece, (const float* from, int64_t size, float* to), from, size, to)

}  // namespace osprey::kernels::cpu
