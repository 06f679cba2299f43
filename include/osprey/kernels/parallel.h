#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace osprey::kernels {

/// Calls work(0) .. work(count - 1), each once, on libtorch's threads (`at::get_num_threads`); the caller is one of
/// them, and inside another parallel region all calls are made by the caller. Throws the first exception.
void parallel_for(int64_t count, c10::function_ref<void(int64_t)> work);

}  // namespace osprey::kernels
