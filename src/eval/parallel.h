#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace osprey::eval {

/// Number of threads meant by an option where 0 is "one per core".
inline int thread_count(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls body(0) .. body(count - 1), each once, on several threads; the caller is one of them. The first exception is
/// thrown again here, after all threads have ended.
template <class Body>
void parallel_for(int64_t count, int threads, const Body& body) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  auto work = [&] {
    for (int64_t i = next++; i < count && !failed; i = next++) {
      try {
        body(i);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t t = 1; t < std::min<int64_t>(thread_count(threads), count); ++t) helpers.emplace_back(work);
  } catch (...) {  // the system gives no more threads, or memory for them; those that are there do as well
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace osprey::eval
