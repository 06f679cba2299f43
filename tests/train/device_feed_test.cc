#include "../src/train/device_feed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/toy_model.h"

namespace osprey::train {
namespace {

using osprey::testing::make_toy_source;

TEST(DeviceFeed, GivesTheBatchesOfItsSourceInTheirOrder) {
  const auto source = make_toy_source(2, 0, /*finite_batches=*/3), same = make_toy_source(2, 0, 3);
  DeviceFeed feed(*source, at::kCPU);
  EXPECT_EQ(feed.num_examples(), source->num_examples());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(feed.position(), i);
    feed.fetch_ahead();  // changes nothing but when a GPU gets it
    EXPECT_EQ(feed.position(), i);
    const Batch ours = *feed.next(), expected = *same->next();
    EXPECT_EQ(ours.ids, expected.ids);
    EXPECT_TRUE(at::equal(ours.images, expected.images));
  }
  EXPECT_FALSE(feed.next().has_value());
}

TEST(DeviceFeed, SeeksToAnyBatch) {
  const auto source = make_toy_source(2);
  DeviceFeed feed(*source, at::kCPU);
  const std::vector<std::string> first = feed.next()->ids;
  feed.next();
  feed.seek(0);
  EXPECT_EQ(feed.position(), 0);
  EXPECT_EQ(feed.next()->ids, first);
  EXPECT_EQ(feed.position(), 1);
}

TEST(DeviceFeed, TellsHowLongItsSourceTook) {
  class Slow final : public data::BatchSource {
   public:
    std::optional<Batch> next() override {
      std::this_thread::sleep_for(std::chrono::milliseconds(position_++ == 1 ? 50 : 0));
      return *source_->next();
    }
    void seek(int64_t index) override { position_ = index; }
    int64_t position() const override { return position_; }
    int64_t num_examples() const override { return -1; }
    int64_t num_skipped() const override { return 0; }

   private:
    std::unique_ptr<data::BatchSource> source_ = make_toy_source(2);
    int64_t position_ = 0;
  } slow;
  DeviceFeed feed(slow, at::kCPU);
  feed.next();
  feed.next();
  EXPECT_GE(feed.source_seconds(), 0.05);
  feed.next();
  EXPECT_LT(feed.source_seconds(), 0.05) << "of the last call only";
}

TEST(Batch, IsCopiedIntoMemoryThatStays) {
  const auto source = make_toy_source(2);
  const Batch first = *source->next(), second = *source->next();
  Batch own = clone(first);
  const void* const place = own.images.data_ptr();
  copy(second, own);
  EXPECT_EQ(own.images.data_ptr(), place);
  EXPECT_TRUE(at::equal(own.images, second.images));
  EXPECT_TRUE(at::equal(own.boxes, second.boxes));
  EXPECT_EQ(own.ids, second.ids);
  EXPECT_FALSE(at::equal(own.images, first.images));
  Batch three = *make_toy_source(3)->next();
  EXPECT_THROW(copy(second, three), c10::Error);
}

}  // namespace
}  // namespace osprey::train
