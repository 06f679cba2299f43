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

/// Rounds to nearest, ties to even. Subnormal bfloat16 numbers may become zero.
void round_floats(const float* from, int64_t size, Bfloat16* to);
void round_floats(const float* from, int64_t size, Float16* to);

/// to += from
void add_floats(const float* from, int64_t size, float* to);

}  // namespace osprey::kernels::cpu
