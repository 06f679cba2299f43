#pragma once
#include <cstdint>

#include "kernels/arithmetic/number.h"

/// Numbers brought from one place to another, compiled for several instruction sets of which the best that the machine
/// has is taken.
namespace osprey::kernels::cpu {

/// `pieces` of `size` numbers each, from_step and to_step numbers apart.
void copy_floats(const float* from, int64_t from_step, int64_t pieces, int64_t size, float* to, int64_t to_step);
void copy_floats(const Bfloat16* from, int64_t from_step, int64_t pieces, int64_t size, float* to, int64_t to_step);
void copy_floats(const Float16* from, int64_t from_step, int64_t pieces, int64_t size, float* to, int64_t to_step);

/// The same the other way round, rounded to nearest, ties to even. Subnormal bfloat16 numbers may become zero.
void round_floats(const float* from, int64_t from_step, int64_t pieces, int64_t size, Bfloat16* to, int64_t to_step);
void round_floats(const float* from, int64_t from_step, int64_t pieces, int64_t size, Float16* to, int64_t to_step);
inline void round_floats(const float* from, int64_t from_step, int64_t pieces, int64_t size, float* to,
                         int64_t to_step) {
  copy_floats(from, from_step, pieces, size, to, to_step);
}
/// One piece of them.
template <class T>
void round_floats(const float* from, int64_t size, T* to) {
  round_floats(from, /*from_step=*/0, /*pieces=*/1, size, to, /*to_step=*/0);
}

/// Rows of `size` floats, each times its factor.   to  may be `from`
void scale_rows(const float* from, const float* factors, int64_t rows, int64_t size, float* to);

/// to += from
void add_floats(const float* from, int64_t size, float* to);

}  // namespace osprey::kernels::cpu
