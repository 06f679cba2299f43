#include "data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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

}  // namespace
}  // namespace osprey::data
