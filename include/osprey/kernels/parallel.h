#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace osprey::kernels {

/// In which order a thread makes the calls that fall to it.
enum class Order { kFirstFirst, kLastFirst };

/// Calls work(0) .. work(count - 1), each once, on libtorch's threads (`at::get_num_threads`); the caller is one of
/// them, and inside another parallel region all calls are made by the caller. Each thread makes successive calls, with
/// the same count the same ones every time, as its caches would have it; one that is done before the others helps them,
/// so which thread makes a call is not certain. Throws the first exception.
void parallel_for(int64_t count, c10::function_ref<void(int64_t)> work, Order order = Order::kFirstFirst);

}  // namespace osprey::kernels
