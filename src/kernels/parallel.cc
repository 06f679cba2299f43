#include "osprey/kernels/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

// at::parallel_for is a template of pragmas: in a file compiled without OpenMP it is a plain loop.
#ifndef _OPENMP
#error "this file is compiled with OpenMP"
#endif

namespace osprey::kernels {
namespace {

/// The calls that a thread has still to make, in a line of the cache of its own. It takes them from one end, those who
/// help it from the other.
class alignas(64) Share {
 public:
  void set(int64_t first, int64_t end) {
    first_ = first;
    end_ = end;
  }
  std::optional<int64_t> take(bool first) {
    const std::lock_guard lock(mutex_);
    if (first_ == end_) return std::nullopt;
    return first ? first_++ : --end_;
  }

 private:
  std::mutex mutex_;
  int64_t first_ = 0, end_ = 0;
};

}  // namespace

void parallel_for(int64_t count, c10::function_ref<void(int64_t)> work, Order order) {
  const int64_t threads = at::in_parallel_region() ? 1 : std::min<int64_t>(count, at::get_num_threads());
  const bool first = order == Order::kFirstFirst;
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) work(first ? i : count - 1 - i);
    return;
  }
  std::vector<Share> shares(static_cast<size_t>(threads));
  for (int64_t t = 0; t < threads; ++t)
    shares[static_cast<size_t>(t)].set(t * count / threads, (t + 1) * count / threads);
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t own = begin; own < end; ++own)
      for (int64_t t = 0; t < threads; ++t)
        while (const auto i = shares[static_cast<size_t>((own + t) % threads)].take((t == 0) == first)) work(*i);
  });
}

}  // namespace osprey::kernels
