#include "../src/eval/pascal_match.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace osprey::eval {
namespace {

/// `before` false alarms, better scored than the one detection of the one object.
ClassCell cell_with(int before) {
  const BoxPx object{10, 10, 20, 20}, elsewhere{50, 50, 60, 60};
  ImageGroundTruth truth;
  truth.boxes_px = {object};
  truth.classes = {1};
  ImageDetections found;
  for (int i = 0; i < before; ++i) {
    found.boxes_px.push_back(elsewhere);
    found.scores.push_back(0.9f);
    found.classes.push_back(1);
  }
  found.boxes_px.push_back(object);
  found.scores.push_back(0.5f);
  found.classes.push_back(1);
  return match_class(truth, found, 1, {});
}

TEST(PascalMatch, CountsTenThousandDetectionsOfAClass) {
  for (const int before : {0, 150, 9999}) {
    const ClassCell cell = cell_with(before);
    ASSERT_EQ(cell.labels.size(), static_cast<size_t>(before) + 1);
    EXPECT_EQ(cell.labels.back().worth, 1) << before;
  }
  const ClassCell cut = cell_with(10000);
  EXPECT_EQ(cut.labels.size(), 10000u);
  EXPECT_EQ(cut.labels.back().worth, 0);
}

TEST(PascalMatch, ClassesAreAnnotatedByBoxesByLabelsOfThePictureOrAll) {
  ImageGroundTruth truth;
  ImageDetections found;
  found.boxes_px = {{10, 10, 20, 20}};
  found.scores = {0.9};
  found.classes = {1};
  const PascalOptions challenge{.only_annotated_classes = true};
  const auto false_alarms = [&] { return match_class(truth, found, 1, challenge).labels.size(); };
  EXPECT_EQ(false_alarms(), 0u);
  truth.image_classes = {2};
  EXPECT_EQ(false_alarms(), 0u);
  truth.image_classes = {2, 1};
  EXPECT_EQ(false_alarms(), 1u);
  truth.image_classes = {};
  truth.all_classes_annotated = true;
  EXPECT_EQ(false_alarms(), 1u);
}

TEST(PascalMetrics, NamesSpellTheThresholdWithItsPoint) {
  for (const auto& [threshold, name] : std::map<double, std::string>{{0.5, "0.5"}, {0.05, "0.05"}, {1, "1.0"}}) {
    const auto values = make_pascal_metrics({{1, "cat"}}, {.iou_threshold = threshold})->values();
    EXPECT_EQ(values.at(0).name, "PascalBoxes_Precision/mAP@" + name + "IOU");
    EXPECT_EQ(values.at(1).name, "PascalBoxes_PerformanceByCategory/AP@" + name + "IOU/cat");
  }
}

}  // namespace
}  // namespace osprey::eval
