#pragma once
/// Code that the loops of the CPU and the kernels of a GPU have in common.

#ifdef __CUDACC__
#define OSPREY_INLINE __host__ __device__ __forceinline__
#else
#define OSPREY_INLINE inline __attribute__((always_inline))
#endif
