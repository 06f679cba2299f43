#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/base/error.h"
#include "osprey/eval/coco_metrics.h"
#include "osprey/eval/metrics.h"

namespace osprey::eval {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Category> kLetters = {{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}, {5, "e"}, {6, "f"}, {7, "none"}};

std::unique_ptr<DetectionMetrics> classification(const MetricsOptions& options = {}) {
  return make_metrics("image_classification_metrics", kLetters, options);
}

ImageGroundTruth showing(const std::vector<int64_t>& classes) {
  return {.boxes_px = std::vector<BoxPx>(classes.size(), BoxPx{0, 0, 9, 9}), .classes = classes};
}

ImageDetections named(const std::vector<int64_t>& classes, const std::vector<double>& scores) {
  return {std::vector<BoxPx>(classes.size(), BoxPx{0, 0, 9, 9}), scores, classes};
}

double value_of(const DetectionMetrics& metrics, const std::string& name) {
  for (const MetricValue& value : metrics.values())
    if (value.name == name) return value.value;
  ADD_FAILURE() << "no " << name;
  return -1;
}

TEST(ClassificationMetrics, CountFirstNamesAndTheFirstFive) {
  const auto all = classification({.include_metrics_per_category = true});
  all->add_image("1", showing({1}), named({2, 1}, {0.3, 0.7}));                                     // the best is right
  all->add_image("2", showing({1}), named({2, 1}, {0.7, 0.3}));                                     // the second is
  all->add_image("3", showing({6}), named({1, 2, 3, 4, 5, 6}, {0.3, 0.2, 0.15, 0.13, 0.12, 0.1}));  // the sixth is
  all->add_image("4", showing({5}), named({1, 1, 1, 2, 3, 4, 5}, {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3}));  // the fifth is
  all->add_image("5", showing({3}), named({}, {}));                                                      // none
  all->add_image("6", showing({}), named({4}, {1}));  // nothing to name
  EXPECT_DOUBLE_EQ(value_of(*all, "ImageClassification/Accuracy"), 1.0 / 5);
  EXPECT_DOUBLE_EQ(value_of(*all, "ImageClassification/Accuracy@5"), 3.0 / 5);
  EXPECT_EQ(all->values().front().name, "ImageClassification/Accuracy");
  EXPECT_DOUBLE_EQ(value_of(*all, "ImageClassification_PerformanceByCategory/Accuracy/a"), 0.5);
  EXPECT_TRUE(std::isnan(value_of(*all, "ImageClassification_PerformanceByCategory/Accuracy/none")));
  const std::vector<ClassMetrics> rows = all->per_class();
  EXPECT_EQ(rows[0].num_ground_truth, 2);
  EXPECT_EQ(rows[0].num_detections, 3) << "pictures for which it is named first";
  EXPECT_DOUBLE_EQ(rows[0].ar, 0.5);
  EXPECT_EQ(rows[6].num_ground_truth, 0);
}

TEST(ClassificationMetrics, AreNotThereWithoutPictures) {
  EXPECT_TRUE(std::isnan(value_of(*classification(), "ImageClassification/Accuracy")));
  EXPECT_EQ(classification()->values().size(), 2u) << "none per category unless asked for";
}

TEST(ClassificationMetrics, DoNotGiveTheFirstFiveOfAClassifierThatNamesFewer) {
  const auto all = classification();
  all->add_image("1", showing({1}), named({1, 2, 3, 4}, {0.4, 0.3, 0.2, 0.1}));
  EXPECT_DOUBLE_EQ(value_of(*all, "ImageClassification/Accuracy"), 1);
  EXPECT_TRUE(std::isnan(value_of(*all, "ImageClassification/Accuracy@5")));
  const auto two = make_metrics("image_classification_metrics", {{1, "a"}, {2, "b"}});
  two->add_image("1", showing({1}), named({2, 1}, {0.6, 0.4}));
  EXPECT_DOUBLE_EQ(value_of(*two, "ImageClassification/Accuracy@5"), 1) << "all that there are";
}

TEST(ClassificationMetrics, HaveNoColumnsOfPrecisionInTheTable) {
  const auto all = classification();
  all->add_image("1", showing({1}), named({1}, {1}));
  const std::string table = per_class_table(all->per_class());
  EXPECT_THAT(table, HasSubstr("AR"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("AP")));
  EXPECT_THAT(table, HasSubstr("1.000"));
}

TEST(ClassificationMetrics, TakeEachImageOnce) {
  const auto all = classification();
  all->add_image("1", showing({1}), named({1}, {1}));
  EXPECT_THAT([&] { all->add_image("1", showing({1}), named({1}, {1})); },
              ThrowsMessage<DataError>(HasSubstr("image 1 was evaluated twice")));
  EXPECT_THAT([&] { all->add_image("2", showing({1}), named({1}, {})); },
              ThrowsMessage<DataError>(HasSubstr("detection scores has 0 entries for 1 boxes")));
}

}  // namespace
}  // namespace osprey::eval
