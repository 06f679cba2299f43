#include "osprey/kernels/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace osprey::kernels {
namespace {

/// Two threads of libtorch, whatever the environment asked for.
class ParallelFor : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(2); }
  void TearDown() override { at::set_num_threads(before_); }
  int before_ = at::get_num_threads();
};

TEST_F(ParallelFor, CallsEachOnce) {
  std::vector<std::atomic<int>> calls(101);
  parallel_for(101, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  parallel_for(0, [](int64_t) { FAIL() << "nothing to do"; });
}

TEST_F(ParallelFor, MakesSuccessiveCallsFromEitherEnd) {
  at::set_num_threads(1);
  for (const Order order : {Order::kFirstFirst, Order::kLastFirst}) {
    std::vector<int64_t> calls;
    parallel_for(
        4, [&](int64_t i) { calls.push_back(i); }, order);
    EXPECT_EQ(calls,
              order == Order::kFirstFirst ? std::vector<int64_t>({0, 1, 2, 3}) : std::vector<int64_t>({3, 2, 1, 0}));
  }
  at::set_num_threads(2);
  std::vector<std::atomic<int>> calls(101);
  parallel_for(
      101, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; }, Order::kLastFirst);
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST_F(ParallelFor, AThreadThatIsDoneHelpsTheOthers) {
  // The first call waits for all others: half of them fall to its own thread.
  std::atomic<int> others{0};
  std::atomic<bool> helped{false};
  parallel_for(10, [&](int64_t i) {
    if (i > 0) {
      ++others;
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (others < 9 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    helped = others == 9;
  });
  EXPECT_TRUE(helped);
}

TEST_F(ParallelFor, RunsCallsSideBySide) {
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  parallel_for(2, [&](int64_t) {
    ++inside;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (inside < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (inside == 2) together = true;
  });
  EXPECT_TRUE(together) << "the second call began only after the first had ended";
}

TEST_F(ParallelFor, ThrowsWhatACallThrows) {
  EXPECT_THROW(parallel_for(8,
                            [](int64_t i) {
                              if (i == 5) throw std::runtime_error("five");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace osprey::kernels
