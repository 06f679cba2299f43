#include "osprey/eval/coco_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

using ::testing::HasSubstr;

const std::array<double, 4> kBox = {10, 10, 40, 40};  // medium: 1600 pixels

CocoImage::Object object(std::array<double, 4> box, bool crowd = false, int64_t category = 0) {
  return {box, box[2] * box[3], category, crowd};
}

CocoStats stats_of(const std::vector<CocoImage>& images, int64_t num_categories = 1) {
  return evaluate_coco(images, num_categories).stats;
}

TEST(Coco, AFoundObjectScoresOneAndSizesWithoutObjectsDoNotExist) {
  const CocoStats stats = stats_of({{{object(kBox)}, {{kBox, 0.9, 0}}}});
  EXPECT_NEAR(stats[0], 1, 1e-12);
  EXPECT_NEAR(stats[4], 1, 1e-12);
  EXPECT_TRUE(std::isnan(stats[3]));
  EXPECT_TRUE(std::isnan(stats[5]));
}

TEST(Coco, NoDetectionsGiveZeroAndNoGroundTruthGivesNothing) {
  EXPECT_EQ(stats_of({{{object(kBox)}, {}}})[0], 0);
  EXPECT_TRUE(std::isnan(stats_of({{{}, {{kBox, 0.9, 0}}}})[0]));
  EXPECT_TRUE(std::isnan(stats_of({})[0]));
}

TEST(Coco, ADetectionInACrowdIsNeitherRightNorWrong) {
  // Alone, a crowd is nothing to be found.
  EXPECT_TRUE(std::isnan(stats_of({{{object(kBox, true)}, {{kBox, 0.9, 0}}}})[0]));
  // Beside an object, detections inside it (overlap relative to their own area) are left out of precision; any number
  // of them.
  const CocoImage image{{object(kBox), object({100, 100, 200, 200}, true)},
                        {{{110, 110, 40, 40}, 0.95, 0}, {{200, 200, 40, 40}, 0.93, 0}, {kBox, 0.9, 0}}};
  EXPECT_NEAR(stats_of({image})[0], 1, 1e-12);
}

TEST(Coco, TheFirstOfEqualScoresCounts) {
  // One right and one wrong detection of equal score: in this order precision 1 at full recall, in the other 1/2.
  const CocoImage right_first{{object(kBox)}, {{kBox, 0.5, 0}, {{200, 200, 40, 40}, 0.5, 0}}};
  const CocoImage wrong_first{{object(kBox)}, {{{200, 200, 40, 40}, 0.5, 0}, {kBox, 0.5, 0}}};
  EXPECT_NEAR(stats_of({right_first})[0], 1, 1e-12);
  EXPECT_NEAR(stats_of({wrong_first})[0], 0.5, 1e-12);
  EXPECT_EQ(stats_of({wrong_first})[6], 0);  // AR@1 sees the wrong one only
}

TEST(Coco, OnlyTheHundredBestDetectionsOfAnImageCount) {
  CocoImage image{{object(kBox)}, {}};
  for (int i = 0; i < 100; ++i) image.detections.push_back({{500, 500, 40, 40}, 0.9, 0});
  image.detections.push_back({kBox, 0.5, 0});
  EXPECT_EQ(stats_of({image})[8], 0);
  image.detections.erase(image.detections.begin());
  EXPECT_EQ(stats_of({image})[8], 1);
}

TEST(Coco, AClassWithoutObjectsIsLeftOutOfTheMean) {
  const CocoResult result = evaluate_coco({{{object(kBox)}, {{kBox, 0.9, 0}, {kBox, 0.8, 1}}}}, 2);
  EXPECT_NEAR(result.stats[0], 1, 1e-12);
  const auto rows = per_class_rows(result, {{1, "cat"}, {2, "dog"}});
  EXPECT_TRUE(std::isnan(rows[1].ap));
  EXPECT_EQ(rows[1].num_detections, 1);
  EXPECT_THAT(per_class_table(rows), HasSubstr("n/a"));
}

TEST(Coco, SummaryReadsLikePycocotools) {
  CocoStats stats;
  stats.fill(kNotAvailable);
  stats[0] = 0.2454;
  const std::string text = coco_summary(stats);
  EXPECT_THAT(text, HasSubstr(" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.245\n"));
  EXPECT_THAT(text, HasSubstr(" Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = -1.000\n"));
  EXPECT_THAT(text, HasSubstr(" Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = -1.000\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
}

TEST(CocoMetrics, SaysWhichMetricsThereAre) {
  try {
    make_metrics("coco_detection_metric", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("coco_detection_metrics, "));
    EXPECT_THAT(error.what(), HasSubstr("pascal_voc_detection_metrics"));
  }
  try {
    make_metrics("coco_mask_metrics", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not supported yet"));
  }
}

TEST(CocoMetrics, CountsAnImageOnce) {
  const auto metrics = make_metrics("coco_detection_metrics", {{1, "cat"}});
  metrics->add_image("a", {}, {});
  EXPECT_THROW(metrics->add_image("a", {}, {}), DataError);
  ImageGroundTruth uneven;
  uneven.classes = {1};
  EXPECT_THROW(metrics->add_image("b", uneven, {}), DataError);
}

TEST(CocoMetrics, PerCategoryAndSuperCategoryValuesCarryTheirTags) {
  const auto metrics = make_metrics("coco_detection_metrics", {{1, "cat"}, {2, "dog"}},
                                    {.all_metrics_per_category = true, .super_categories = {{"pets", "cat, dog"}}});
  metrics->add_image("a", {.boxes_px = {{0, 0, 40, 40}, {50, 50, 90, 90}}, .classes = {1, 2}},
                     {{{0, 0, 40, 40}}, {0.9}, {1}});
  std::map<std::string, double> values;
  for (const MetricValue& value : metrics->values()) values[value.name] = value.value;
  EXPECT_NEAR(values.at("DetectionBoxes_PerformanceByCategory/mAP/cat"), 1, 1e-12);
  EXPECT_NEAR(values.at("DetectionBoxes_PerformanceBySuperCategory/pets"), 0.5, 1e-12);
  EXPECT_NEAR(values.at("DetectionBoxes_Recall AR@1 ByCategory/dog"), 0, 1e-12);
  EXPECT_THROW(make_metrics("coco_detection_metrics", {{1, "cat"}}, {.super_categories = {{"pets", "cow"}}}),
               ConfigError);
}

}  // namespace
}  // namespace osprey::eval
