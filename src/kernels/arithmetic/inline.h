#pragma once
/// Code that the loops of the CPU and the kernels of a GPU have in common.

#ifdef __CUDACC__
#define OSPREY_INLINE __host__ __device__ __forceinline__
#define OSPREY_UNROLL _Pragma("unroll")  // arrays whose loops are not unrolled leave the registers
#else
#define OSPREY_INLINE inline __attribute__((always_inline))
#define OSPREY_UNROLL
#endif
