#pragma once
#include "kernels/arithmetic/inline.h"

/// One loop compiled for several instruction sets, of which the best that the machine has is taken at run time.

#if defined(__x86_64__) && defined(__GNUC__)
/// Defines a function once per instruction set and one that calls the best of them.
#define OSPREY_DISPATCH(name, inner, parameters, ...)                                                            \
  namespace {                                                                                                    \
  __attribute__((                                                                                                \
      target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512"))) void name##_avx512 parameters { \
    inner(__VA_ARGS__);                                                                                          \
  }                                                                                                              \
  __attribute__((target("avx2,fma"))) void name##_avx2 parameters { inner(__VA_ARGS__); }                        \
  void name##_any parameters { inner(__VA_ARGS__); }                                                             \
  }                                                                                                              \
  void name parameters {                                                                                         \
    static const int level = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&          \
                                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")    \
                                 ? 2                                                                             \
                                 : (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0);    \
    if (level == 2) {                                                                                            \
      name##_avx512(__VA_ARGS__);                                                                                \
    } else if (level == 1) {                                                                                     \
      name##_avx2(__VA_ARGS__);                                                                                  \
    } else {                                                                                                     \
      name##_any(__VA_ARGS__);                                                                                   \
    }                                                                                                            \
  }
#else
#define OSPREY_DISPATCH(name, inner, parameters, ...) \
  void name parameters { inner(__VA_ARGS__); }
#endif
