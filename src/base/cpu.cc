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
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace osprey {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)  // see kernels/cpu/loops/dispatch.h
/// Whether the CPU has AMX-BF16 and the system lets this process use it, which has to be asked for (Intel's manual of
/// the architecture, volume 1, chapter 18.3; the kernel's Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
#ifdef __linux__
  constexpr unsigned int kAmxBf16 = 1u << 22, kOsxsave = 1u << 27, kTileState = 3u << 17;
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmxBf16) == 0) return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return false;
  unsigned int low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr int64_t kAskForState = 0x1023, kTileData = 18;
  return (low & kTileState) == kTileState && syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}
#endif

InstructionSet best_of_machine() {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#ifndef __clang__
  if (avx512 && __builtin_cpu_supports("avx512bf16"))
    return may_use_tiles() ? InstructionSet::kAmxBf16 : InstructionSet::kAvx512Bf16;
#endif
  if (avx512) return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kAny;
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
  static const InstructionSet result = std::min(best_of_machine(), allowed());
  return result;
}

bool has_bfloat16_arithmetic() { return instruction_set() >= InstructionSet::kAvx512Bf16; }

bool has_bfloat16_tiles() { return instruction_set() == InstructionSet::kAmxBf16; }

}  // namespace osprey
