#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "osprey/train/replicas.h"

namespace osprey::testing {

/// Runs `work` as each of `size` replicas, which are threads here, and returns what each threw.
/// one_machine  whether they are told that they could share memory
inline std::vector<std::string> on_replicas(int64_t size, const std::function<void(train::Replicas&)>& work,
                                            double seconds = 60, bool one_machine = true) {
  const int64_t port = train::free_port();
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto replicas = train::join_replicas(
            {.rank = rank, .size = size, .local_size = one_machine ? size : 1, .master_port = port}, seconds);
        work(*replicas);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_well(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

}  // namespace osprey::testing
