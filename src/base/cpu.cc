#include "osprey/base/cpu.h"

#include <spdlog/spdlog.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace osprey {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)  // see kernels/cpu/loops/dispatch.h
/// Whether the CPU has AMX-BF16 and the system lets this process use it, which has to be asked for (Intel's manual of
/// the architecture, volume 1, chapter 18.3; the kernel's Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
#ifdef __linux__
  constexpr unsigned int kAmxTile = 1u << 24, kAmxBf16 = 1u << 22, kAmx = kAmxTile | kAmxBf16, kOsxsave = 1u << 27,
                         kTileState = 3u << 17;
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmx) != kAmx) return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return false;
  unsigned int low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr int64_t kAskForState = 0x1023, kTileData = 18;
  if ((low & kTileState) != kTileState) return false;
  if (syscall(SYS_arch_prctl, kAskForState, kTileData) == 0) return true;
  const int error = errno;
  SPDLOG_WARN("this CPU has AMX, but the system does not let this process use it: {}", std::strerror(error));
  return false;
#else
  return false;
#endif
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)
/// Whether the CPU converts numbers of IEEE 754 binary16 (Intel's manual of the architecture, volume 1, chapter 14.4).
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

unsigned int family() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned int base = eax >> 8 & 0xf, more = eax >> 20 & 0xff;
  return base == 0xf ? base + more : base;
}
#endif

/// most  more is not asked for
InstructionSet best_of_machine(InstructionSet most) {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#ifndef __clang__
  if (avx512 && __builtin_cpu_supports("avx512bf16"))
    return most >= InstructionSet::kAmxBf16 && may_use_tiles() ? InstructionSet::kAmxBf16 : InstructionSet::kAvx512Bf16;
#endif
  if (avx512) return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kAny;
}

/// Whether the CPU says how wide it computes, and that it is with 256 bits (AMD64 Architecture Programmer's Manual,
/// volume 3, appendix E: CPUID Fn8000_001A). Others with AVX-512 compute with 512.
bool computes_with_halves() {
#if defined(__x86_64__) && defined(__GNUC__)
  constexpr unsigned int kPerformance = 0x8000001a, k256Bits = 1u << 2, k512Bits = 1u << 3;
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(kPerformance, &eax, &ebx, &ecx, &edx) != 0 && (eax & (k256Bits | k512Bits)) == k256Bits;
#else
  return false;
#endif
}

/// Whether the CPU is one of AMD's of the family 19h or 1Ah (CPUID Fn0000_0000 and Fn0000_0001): two of their pipes
/// multiply, the other two add (Software Optimization Guides for the AMD Zen 4 and Zen 5 Microarchitectures, on the
/// floating-point unit). Measured on a Zen 4.
bool has_adders() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_is("amd") && (family() == 0x19 || family() == 0x1a);
#else
  return false;
#endif
}

InstructionSet allowed() {
  constexpr std::pair<std::string_view, InstructionSet> kSets[] = {{"ANY", InstructionSet::kAny},
                                                                   {"AVX2", InstructionSet::kAvx2},
                                                                   {"AVX512", InstructionSet::kAvx512},
                                                                   {"AVX512_BF16", InstructionSet::kAvx512Bf16},
                                                                   {"AMX_BF16", InstructionSet::kAmxBf16}};
  const char* const value = std::getenv("OSPREY_MAX_CPU_ISA");
  if (value == nullptr) return InstructionSet::kAmxBf16;
  for (const auto& [name, set] : kSets)
    if (name == value) return set;
  SPDLOG_WARN("OSPREY_MAX_CPU_ISA={} is none of ANY, AVX2, AVX512, AVX512_BF16 and AMX_BF16: all are allowed", value);
  return InstructionSet::kAmxBf16;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet result = [] {
    const InstructionSet most = allowed();
    return std::min(best_of_machine(most), most);
  }();
  return result;
}

bool has_bfloat16_arithmetic() { return instruction_set() >= InstructionSet::kAvx512Bf16; }

bool computes_with_512_bits() {
  static const bool result = instruction_set() >= InstructionSet::kAvx512 && !computes_with_halves();
  return result;
}

bool adds_beside_products() {
  static const bool result = instruction_set() >= InstructionSet::kAvx512 && has_adders();
  return result;
}

bool has_bfloat16_tiles() { return instruction_set() == InstructionSet::kAmxBf16; }

}  // namespace osprey
