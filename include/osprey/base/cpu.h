#pragma once

namespace osprey {

/// Whether this machine's CPU multiplies bfloat16 numbers itself (AVX512-BF16). Where it does not, libtorch's
/// operations on them are slower than those on float32, without AVX-512 many times.
bool has_bfloat16_arithmetic();

/// Whether this machine's CPU multiplies tiles of bfloat16 numbers at once (AMX), many times as fast as float32.
bool has_bfloat16_tiles();

/// What loops are compiled for: any machine, AVX2 with FMA, AVX-512 (F, BW, VL, DQ).
enum class InstructionSet { kAny, kAvx2, kAvx512 };

/// The best that this CPU has and that the environment allows: OSPREY_MAX_CPU_ISA=ANY, AVX2 or AVX512. Found out once;
/// another value is warned of and allows all.
InstructionSet instruction_set();

}  // namespace osprey
