#include "data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <stdexcept>

namespace osprey::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

using Item = std::vector<int64_t>;

/// Item i is {10 i, 10 i + 1}; what `before` throws of it, it throws.
Prefetcher<Item>::Work two_rows(std::function<void(int64_t index)> before) {
  return {.begin =
              [before](int64_t index) {
                before(index);
                return Item(2);
              },
          .num_rows = [](int64_t) { return 2; },
          .fill = [](Item& item, int64_t index, int64_t row) { item[static_cast<size_t>(row)] = 10 * index + row; },
          .enter_thread = [] {}};
}

TEST(Prefetcher, GivesItemsInTheirOrder) {
  Prefetcher<Item> items(two_rows([](int64_t) {}), 3, 2, 2);
  EXPECT_THAT(items.next().value(), ElementsAre(0, 1));
  EXPECT_THAT(items.next().value(), ElementsAre(10, 11));
  EXPECT_THAT(items.next().value(), ElementsAre(20, 21));
  EXPECT_FALSE(items.next());
}

TEST(Prefetcher, AnItemIsFinishedAndGivenWhileAnotherIsBegun) {
  constexpr std::chrono::seconds kLimit(60);
  std::promise<void> begins, given;
  const std::shared_future<void> second_begins = begins.get_future().share(), first_given = given.get_future().share();
  std::atomic<bool> waited_in_vain = false;
  const auto wait_for = [&](const std::shared_future<void>& event) {
    if (event.wait_for(kLimit) != std::future_status::ready) waited_in_vain = true;
  };
  Prefetcher<Item>::Work work = two_rows([&](int64_t index) {
    if (index != 1) return;
    begins.set_value();
    wait_for(first_given);
  });
  work.fill = [&, fill = work.fill](Item& item, int64_t index, int64_t row) {
    if (index == 0 && row == 1) wait_for(second_begins);
    fill(item, index, row);
  };
  Prefetcher<Item> items(work, 2, 2, 2);
  EXPECT_THAT(items.next().value(), ElementsAre(0, 1));
  given.set_value();
  EXPECT_THAT(items.next().value(), ElementsAre(10, 11));
  EXPECT_FALSE(waited_in_vain);
}

TEST(Prefetcher, GoesElsewhereWhileAnItemIsBegun) {
  std::promise<void> begun, go_on;
  const std::shared_future<void> may_go = go_on.get_future().share();
  std::atomic<bool> waits = true;
  Prefetcher<Item> items(two_rows([&](int64_t index) {
                           if (index != 1 || !waits.exchange(false)) return;
                           begun.set_value();
                           may_go.wait();
                         }),
                         std::nullopt, 2, 2);
  EXPECT_THAT(items.next().value(), ElementsAre(0, 1));
  begun.get_future().wait();
  items.seek(7);
  go_on.set_value();  // what it begins belongs to no one
  EXPECT_THAT(items.next().value(), ElementsAre(70, 71));
  EXPECT_THAT(items.next().value(), ElementsAre(80, 81));
}

TEST(Prefetcher, AnItemThatCannotBeBegunIsAnErrorOfThatItem) {
  std::atomic<bool> fails = true;
  Prefetcher<Item> items(two_rows([&](int64_t index) {
                           if (index == 1 && fails) throw std::runtime_error("no memory for item 1");
                         }),
                         3, 2, 1);
  EXPECT_THAT(items.next().value(), ElementsAre(0, 1));
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT([&] { items.next(); }, ThrowsMessage<std::runtime_error>("no memory for item 1"));
  fails = false;
  items.seek(1);
  EXPECT_THAT(items.next().value(), ElementsAre(10, 11));
  EXPECT_THAT(items.next().value(), ElementsAre(20, 21));
}

TEST(Prefetcher, AnItemWithoutMemoryComesAfterThoseBeforeItAndEndsNoThread) {
  std::atomic<bool> fails = true;
  Prefetcher<Item>::Work work = two_rows([](int64_t) {});
  work.num_rows = [&](int64_t index) -> int64_t {
    if (index == 2 && fails) throw std::bad_alloc();
    return 2;
  };
  Prefetcher<Item> items(work, 4, 2, 3);
  EXPECT_THAT(items.next().value(), ElementsAre(0, 1));
  EXPECT_THAT(items.next().value(), ElementsAre(10, 11));
  for (int i = 0; i < 2; ++i) EXPECT_THROW(items.next(), std::bad_alloc);
  fails = false;
  items.seek(2);
  EXPECT_THAT(items.next().value(), ElementsAre(20, 21));
  EXPECT_THAT(items.next().value(), ElementsAre(30, 31));
  EXPECT_FALSE(items.next());
}

}  // namespace
}  // namespace osprey::data
