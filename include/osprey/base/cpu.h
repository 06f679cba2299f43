#pragma once

namespace osprey {

/// What loops are compiled for: any machine, AVX2 with FMA and F16C, AVX-512 (F, BW, VL, DQ), the same with
/// AVX512-BF16, and that with AMX-BF16.
enum class InstructionSet { kAny, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

/// The best that this CPU has, that the system lets this process use, and that the environment allows:
/// OSPREY_MAX_CPU_ISA=ANY, AVX2, AVX512, AVX512_BF16 or AMX_BF16. Found out once. The system is asked for AMX only
/// where the environment allows it, and warned of where it refuses; another value is warned of and allows all.
InstructionSet instruction_set();

/// Whether bfloat16 numbers are multiplied by instructions for them, AVX512-BF16: where this CPU has it and
/// OSPREY_MAX_CPU_ISA does not forbid it. (On a CPU without it libtorch's operations on such numbers are slower than
/// those on float32, without AVX-512 many times.)
bool has_bfloat16_arithmetic();

/// Whether tiles of them are multiplied at once, too (AMX-BF16), many times as fast as float32.
bool has_bfloat16_tiles();

/// Whether instruction_set() has registers of 512 bits and the CPU computes with all of one at once, not with its
/// halves as Zen 4 does.
bool computes_with_512_bits();

/// Whether floats are multiplied with fewer multiplications and more additions (kernels/cpu/loops/inner_products.h):
/// where instruction_set() has AVX-512 and the CPU adds in other units than it multiplies in, as Zen 4 does.
bool adds_beside_products();

}  // namespace osprey
