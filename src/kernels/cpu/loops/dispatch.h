#pragma once
#include "kernels/arithmetic/inline.h"
#include "osprey/base/cpu.h"

/// One loop compiled for several instruction sets, of which the best that the machine has is taken at run time.

#if defined(__x86_64__) && defined(__GNUC__)
#define OSPREY_FOR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")))

/// Defines a function for AVX-512, one for AVX2, one for any machine, and one that calls the best of them.
#define OSPREY_DISPATCH_EACH(name, avx512, avx2, any, parameters, ...)                   \
  namespace {                                                                            \
  OSPREY_FOR_AVX512 void name##_avx512 parameters { avx512(__VA_ARGS__); }               \
  __attribute__((target("avx2,fma"))) void name##_avx2 parameters { avx2(__VA_ARGS__); } \
  void name##_any parameters { any(__VA_ARGS__); }                                       \
  }                                                                                      \
  void name parameters {                                                                 \
    static const InstructionSet best = instruction_set();                                \
    if (best >= InstructionSet::kAvx512) {                                               \
      name##_avx512(__VA_ARGS__);                                                        \
    } else if (best == InstructionSet::kAvx2) {                                          \
      name##_avx2(__VA_ARGS__);                                                          \
    } else {                                                                             \
      name##_any(__VA_ARGS__);                                                           \
    }                                                                                    \
  }

#else
#define OSPREY_DISPATCH_EACH(name, avx512, avx2, any, parameters, ...) \
  void name parameters { any(__VA_ARGS__); }
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/// The same, with one that is called where there is AVX512-BF16: compiled for AVX-512, it has the further instructions
/// as assembly.
#define OSPREY_DISPATCH_BFLOAT16(name, avx512_bf16, avx512, avx2, any, parameters, ...) \
  namespace {                                                                           \
  OSPREY_DISPATCH_EACH(name##_without, avx512, avx2, any, parameters, __VA_ARGS__)      \
  OSPREY_FOR_AVX512 void name##_avx512_bf16 parameters { avx512_bf16(__VA_ARGS__); }    \
  }                                                                                     \
  void name parameters {                                                                \
    static const bool native = has_bfloat16_arithmetic();                               \
    native ? name##_avx512_bf16(__VA_ARGS__) : name##_without(__VA_ARGS__);             \
  }
#else  // clang takes assembly only for what the function around it is compiled for
#define OSPREY_DISPATCH_BFLOAT16(name, avx512_bf16, avx512, avx2, any, parameters, ...) \
  OSPREY_DISPATCH_EACH(name, avx512, avx2, any, parameters, __VA_ARGS__)
#endif

/// `inner` as it is for all of them.
#define OSPREY_DISPATCH(name, inner, parameters, ...) \
  OSPREY_DISPATCH_EACH(name, inner, inner, inner, parameters, __VA_ARGS__)

/// `inner<floats of a register>`
#define OSPREY_DISPATCH_LANES(name, inner, parameters, ...) \
  OSPREY_DISPATCH_EACH(name, inner<16>, inner<8>, inner<8>, parameters, __VA_ARGS__)
