#pragma once

namespace osprey {

/// Whether this machine's CPU multiplies bfloat16 numbers itself (AVX512-BF16). Where it does not, they are slower than
/// float32, without AVX-512 many times.
bool has_bfloat16_arithmetic();

/// Whether it has the 512 bit registers that libraries write kernels of their own for (AVX-512 F, BW, VL and DQ).
bool has_avx512();

}  // namespace osprey
