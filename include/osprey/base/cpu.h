#pragma once

namespace osprey {

/// Whether this machine's CPU multiplies bfloat16 numbers itself (AVX512-BF16). Where it does not, they are slower than
/// float32, without AVX-512 many times.
bool has_bfloat16_arithmetic();

/// What loops are compiled for: any machine, AVX2 with FMA, AVX-512 (F, BW, VL, DQ).
enum class InstructionSet { kAny, kAvx2, kAvx512 };

/// The best that this CPU has and that the environment allows: OSPREY_MAX_CPU_ISA=ANY, AVX2 or AVX512. Found out once;
/// another value is warned of and allows all.
InstructionSet instruction_set();

}  // namespace osprey
