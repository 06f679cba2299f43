#include "osprey/kernels/parallel.h"

#include <ATen/Parallel.h>

// at::parallel_for is a template of pragmas: in a file compiled without OpenMP it is a plain loop.
#ifndef _OPENMP
#error "this file is compiled with OpenMP"
#endif

namespace osprey::kernels {

void parallel_for(int64_t count, c10::function_ref<void(int64_t)> work) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(i);
  });
}

}  // namespace osprey::kernels
