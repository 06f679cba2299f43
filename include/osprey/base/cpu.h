#pragma once

namespace osprey {

/// Whether this machine's CPU multiplies bfloat16 numbers itself (AVX512-BF16). Where it does not, libtorch does so one
/// by one, many times slower than float32.
bool has_bfloat16_arithmetic();

}  // namespace osprey
