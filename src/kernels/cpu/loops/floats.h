#pragma once
#include <cstdint>

/// Numbers brought from one place to another, compiled for several instruction sets of which the best that the machine
/// has is taken.
namespace osprey::kernels::cpu {

/// `pieces` of `size` floats each, from_step and to_step floats apart.
void copy_floats(const float* from, int64_t from_step, int64_t pieces, int64_t size, float* to, int64_t to_step);

/// to += from
void add_floats(const float* from, int64_t size, float* to);

}  // namespace osprey::kernels::cpu
