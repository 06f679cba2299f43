#include "data/single_threaded.h"

#include <ATen/Parallel.h>

// The setting of OpenMP is each thread's own; libtorch's function would change it for all threads to come. Absent where
// libtorch was built without OpenMP, and then there is nothing to do.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);

namespace osprey::data {

void use_one_thread() {
  at::internal::lazy_init_num_threads();  // else the first operation would overwrite the setting
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
}

}  // namespace osprey::data
