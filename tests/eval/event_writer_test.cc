#include "osprey/eval/event_writer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "osprey/base/error.h"
#include "osprey/eval/histogram.h"
#include "support/event_file.h"

namespace osprey::eval {
namespace {

using osprey::testing::read_events;

class EventWriterTest : public ::testing::Test {
 protected:
  EventWriterTest() { std::filesystem::remove_all(folder_); }
  ~EventWriterTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_ =
      std::string(::testing::TempDir()) + "/events_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(EventWriterTest, WritesTheVersionThenWhatItIsTold) {
  EventWriter writer(folder_);
  writer.scalar("Loss/total_loss", 0.75, 12);
  writer.image("picture", at::full({4, 6, 3}, 200, at::kByte), 13);
  writer.flush();
  const auto events = read_events(writer.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[0].wall_time(), 1.5e9);
  EXPECT_EQ(events[1].step(), 12);
  EXPECT_EQ(events[1].summary().value(0).tag(), "Loss/total_loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.75f);
  EXPECT_EQ(events[2].summary().value(0).image().width(), 6);
  EXPECT_EQ(events[2].summary().value(0).image().encoded_image_string().substr(1, 3), "PNG");
  EXPECT_EQ(std::filesystem::path(writer.path()).filename().string().rfind("events.out.tfevents.", 0), 0u);
}

TEST_F(EventWriterTest, HistogramsCountEveryFiniteValueOnce) {
  EventWriter writer(folder_);
  const HistogramBuckets buckets(at::kCPU);
  writer.histogram("weights", buckets.count(at::tensor({-1.0, 0.0, 0.5, 0.5, NAN, INFINITY, 3.0})), 1);
  writer.histogram("empty", buckets.count(at::zeros({0})), 1);
  writer.flush();
  const auto events = read_events(writer.path());
  const records::Histogram& histogram = events.at(1).summary().value(0).histo();
  EXPECT_EQ(histogram.num(), 5);
  EXPECT_EQ(histogram.min(), -1);
  EXPECT_EQ(histogram.max(), 3);
  EXPECT_EQ(histogram.sum(), 3);
  EXPECT_EQ(histogram.sum_squares(), 1 + 0.25 + 0.25 + 9);
  double counted = 0;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    counted += histogram.bucket(i);
    if (i > 0) {
      EXPECT_LT(histogram.bucket_limit(i - 1), histogram.bucket_limit(i));
    }
  }
  EXPECT_EQ(counted, 5);
  EXPECT_EQ(events.at(2).summary().value(0).histo().num(), 0);
}

TEST_F(EventWriterTest, PrecisionRecallCurvesAreThoseOfTensorBoardsPlugin) {
  EventWriter writer(folder_);
  writer.precision_recall("curves/cat", {{3, 1, 1}, {1, 0, 3}, {0, 0, 4}}, 5);
  writer.flush();
  const auto events = read_events(writer.path());
  const records::Summary::Value& value = events.at(1).summary().value(0);
  EXPECT_EQ(value.tag(), "curves/cat");
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "pr_curves");
  records::PrCurvePluginData curve;
  ASSERT_TRUE(curve.ParseFromString(value.metadata().plugin_data().content()));
  EXPECT_EQ(curve.num_thresholds(), 3u);
  ASSERT_EQ(value.tensor().tensor_shape().dim_size(), 2);
  EXPECT_EQ(value.tensor().tensor_shape().dim(0).size(), 6);
  EXPECT_EQ(value.tensor().tensor_shape().dim(1).size(), 3);
  const std::vector<float> numbers(value.tensor().float_val().begin(), value.tensor().float_val().end());
  EXPECT_EQ(numbers, (std::vector<float>{3, 1, 0, 1, 0, 0, 0, 0, 0, 1, 3, 4, 0.75f, 1, 0, 0.75f, 0.25f, 0}));
}

TEST_F(EventWriterTest, TagsAreUtf8WhateverAClassIsCalled) {
  EventWriter writer(folder_);
  writer.scalar("mAP/caf\xe9", 1, 1);
  writer.precision_recall("curves/caf\xe9", {{1, 0, 0}, {0, 0, 1}}, 1);
  writer.flush();
  const auto events = read_events(writer.path());
  EXPECT_EQ(events.at(1).summary().value(0).tag(), "mAP/caf\uFFFD");
  EXPECT_EQ(events.at(2).summary().value(0).tag(), "curves/caf\uFFFD");
  EXPECT_EQ(events.at(2).summary().value(0).metadata().display_name(), "curves/caf\uFFFD");
}

TEST_F(EventWriterTest, WritersOfOneSecondHaveFilesOfTheirOwn) {
  EventWriter first(folder_), second(folder_);
  EXPECT_NE(first.path(), second.path());
}

// Read by tensorboard_test.py; elsewhere it only has to be written.
TEST_F(EventWriterTest, WritesOneOfEachKindForTensorBoard) {
  const char* folder = std::getenv("OSPREY_EVENT_FOLDER");
  EventWriter writer(folder != nullptr ? folder : folder_);
  for (int64_t step = 0; step < 3; ++step) writer.scalar("Loss/total_loss", 0.5 * static_cast<double>(step), step);
  writer.histogram("weights", HistogramBuckets(at::kCPU).count(at::arange(100, at::kFloat)), 2);
  writer.image("train_input_images", at::arange(4 * 6 * 3, at::kByte).view({4, 6, 3}), 2);
  writer.precision_recall("curves/cat", {{3, 1, 1}, {1, 0, 3}, {0, 0, 4}}, 2);
  writer.flush();
  EXPECT_EQ(read_events(writer.path()).size(), 7u);
}

TEST_F(EventWriterTest, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THROW(EventWriter("/proc/no_such_place/events"), DataError);
}

}  // namespace
}  // namespace osprey::eval
