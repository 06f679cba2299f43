#include "osprey/eval/at_iou_50.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Matrix = std::vector<std::vector<int64_t>>;

const std::array<double, 4> kHere = {10, 10, 40, 40}, kElsewhere = {200, 200, 40, 40}, kApart = {400, 400, 40, 40};

CocoImage::Object thing(std::array<double, 4> box, int64_t category = 0, bool crowd = false) {
  return {box, box[2] * box[3], category, crowd};
}

AtIou50 at_iou_50_of(const std::vector<CocoImage>& images, int64_t num_categories = 1) {
  return evaluate_coco(images, num_categories).at_iou_50;
}

void expect_counts(const DetectionCounts& counts, int64_t right, int64_t wrong, int64_t missed) {
  EXPECT_EQ(counts.true_positives, right);
  EXPECT_EQ(counts.false_positives, wrong);
  EXPECT_EQ(counts.false_negatives, missed);
}

TEST(AtIou50, ASmallCaseByHand) {
  // Cats: one found at 0.9, one at 0.3, one taken for a dog at 0.8. Dogs: one, missed. A cat is seen at 0.6 where
  // nothing is. The score is the threshold, the sum is over both classes, F1 is 2 right / (detections + 4 objects):
  //   0.9: 2 / 5   0.8: 2 / 6   0.6: 2 / 7   0.3: 4 / 8, the largest
  const std::vector<CocoImage> images = {
      {{thing(kHere), thing(kElsewhere), thing(kApart, 1)}, {{kHere, 0.9, 0}, {kElsewhere, 0.8, 1}}},
      {{thing(kHere)}, {{kApart, 0.6, 0}, {kHere, 0.3, 0}}}};
  const AtIou50 at = at_iou_50_of(images, 2);
  const OperatingPoint& point = at.operating_point;
  EXPECT_EQ(point.score_threshold, 0.3);
  expect_counts(point.all, 2, 2, 2);
  expect_counts(point.per_category[0], 2, 1, 1);
  expect_counts(point.per_category[1], 0, 1, 1);
  EXPECT_NEAR(point.all.f1(), 0.5, 1e-12);
  EXPECT_NEAR(point.per_category[0].precision(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(point.per_category[0].recall(), 2.0 / 3, 1e-12);
  EXPECT_EQ(point.per_category[1].f1(), 0);
  EXPECT_EQ(point.confusion, (Matrix{{2, 1, 0}, {0, 0, 1}, {1, 0, 0}}));
  // Cats: precision 1 up to recall 1/3, then 2/3 up to 2/3, then nothing.
  const PrecisionRecall& cat = at.precision_recall[0];
  ASSERT_EQ(cat.precision.size(), 101u);
  EXPECT_NEAR(cat.precision[33], 1, 1e-12);
  EXPECT_NEAR(cat.precision[34], 2.0 / 3, 1e-12);
  EXPECT_NEAR(cat.precision[66], 2.0 / 3, 1e-12);
  EXPECT_EQ(cat.precision[67], 0);
  EXPECT_EQ(cat.score[0], 0.9);
  EXPECT_EQ(cat.score[33], 0.9);
  EXPECT_EQ(cat.score[34], 0.3);
  EXPECT_TRUE(std::isnan(cat.score[67]));
  EXPECT_THAT(at.precision_recall[1].precision, Each(0));
  EXPECT_NEAR(at.mean_precision[33], 0.5, 1e-12);
  // From a score up: 0.9 has the one right cat, 0.91 none, 0.3 all, and 0.6 the wrong one as well.
  ASSERT_EQ(at.at_scores[0].size(), 101u);
  expect_counts(at.at_scores[0][91], 0, 0, 3);
  expect_counts(at.at_scores[0][90], 1, 0, 2);
  expect_counts(at.at_scores[0][60], 1, 1, 2);
  expect_counts(at.at_scores[0][0], 2, 1, 1);
  expect_counts(at.at_scores[1][80], 0, 1, 1);
  expect_counts(at.at_scores[1][81], 0, 0, 1);
}

TEST(AtIou50, TheMeanOfTheMeanCurveIsAp50) {
  const CocoResult result = evaluate_coco({{{thing(kHere), thing(kElsewhere), thing(kApart, 2)},
                                            {{kApart, 0.95, 0}, {kHere, 0.9, 0}, {kApart, 0.5, 1}, {kApart, 0.4, 2}}}},
                                          3);
  double sum = 0;
  for (double precision : result.at_iou_50.mean_precision) sum += precision;
  EXPECT_NEAR(sum / 101, result.stats[1], 1e-12);
}

TEST(AtIou50, OfEqualF1TheLowestThresholdIsTaken) {
  // Five objects. At 0.9: 2 / (1 + 5) = 1/3. At 0.5, three wrong ones later: 4 / (7 + 5) = 1/3.
  CocoImage image{
      {thing(kHere), thing(kElsewhere), thing({0, 500, 9, 9}), thing({20, 500, 9, 9}), thing({40, 500, 9, 9})},
      {{kHere, 0.9, 0}, {kElsewhere, 0.5, 0}}};
  for (int i = 0; i < 5; ++i) image.detections.push_back({kApart, 0.7, 0});
  EXPECT_EQ(at_iou_50_of({image}).operating_point.score_threshold, 0.5);
  image.detections.push_back({kApart, 0.7, 0});
  EXPECT_EQ(at_iou_50_of({image}).operating_point.score_threshold, 0.9);
}

TEST(AtIou50, AThresholdTakesEqualScoresTogether) {
  // One right and two wrong of the same score are in or out together.
  const AtIou50 at = at_iou_50_of({{{thing(kHere)}, {{kHere, 0.5, 0}, {kApart, 0.5, 0}, {kElsewhere, 0.5, 0}}}});
  EXPECT_EQ(at.operating_point.score_threshold, 0.5);
  expect_counts(at.operating_point.all, 1, 2, 0);
}

TEST(AtIou50, WhereNothingIsRightAllDetectionsAreShown) {
  // Classes mixed up throughout, as by a wrong label map: the matrix says which for which.
  const AtIou50 at = at_iou_50_of(
      {{{thing(kHere), thing(kElsewhere, 1)}, {{kHere, 0.9, 1}, {kElsewhere, 0.2, 0}, {kApart, 0.1, 0}}}}, 2);
  EXPECT_EQ(at.operating_point.score_threshold, 0.1);
  EXPECT_EQ(at.operating_point.all.f1(), 0);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{0, 1, 0}, {1, 0, 0}, {1, 0, 0}}));
}

TEST(AtIou50, WithoutDetectionsEverythingIsMissed) {
  const AtIou50 at = at_iou_50_of({{{thing(kHere), thing(kElsewhere)}, {}}});
  EXPECT_TRUE(std::isnan(at.operating_point.score_threshold));
  expect_counts(at.operating_point.all, 0, 0, 2);
  EXPECT_TRUE(std::isnan(at.operating_point.all.precision()));
  EXPECT_EQ(at.operating_point.all.recall(), 0);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{0, 2}, {0, 0}}));
  EXPECT_THAT(at.precision_recall[0].precision, Each(0));
}

TEST(AtIou50, AClassWithoutObjectsHasNoCurveAndItsDetectionsAreWrong) {
  const AtIou50 at = at_iou_50_of({{{thing(kHere)}, {{kHere, 0.9, 0}, {kApart, 0.95, 1}}}}, 3);
  EXPECT_THAT(at.precision_recall[1].precision, IsEmpty());
  const DetectionCounts& absent = at.operating_point.per_category[1];
  expect_counts(absent, 0, 1, 0);
  EXPECT_EQ(absent.precision(), 0);
  EXPECT_TRUE(std::isnan(absent.recall()));
  EXPECT_TRUE(std::isnan(absent.f1()));
  EXPECT_TRUE(std::isnan(at.operating_point.per_category[2].precision()));
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{1, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}}));
  EXPECT_NEAR(at.mean_precision[100], 1, 1e-12) << "it is left out of the mean";
}

TEST(AtIou50, NothingAtAllIsNotAnError) {
  EXPECT_EQ(at_iou_50_of({}, 0).operating_point.confusion, (Matrix{{0}}));
  const AtIou50 at = at_iou_50_of({{{}, {{kHere, 0.9, 0}}}});
  EXPECT_THAT(at.mean_precision, IsEmpty());
  EXPECT_TRUE(std::isnan(at.operating_point.all.f1()));
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{0, 0}, {1, 0}}));
}

TEST(AtIou50, CrowdsAndWhatLiesInThoseOfItsClassAreLeftOut) {
  const std::array<double, 4> crowd = {100, 100, 200, 200}, inside = {150, 150, 40, 40};
  const AtIou50 only = at_iou_50_of({{{thing(crowd, 0, true)}, {{inside, 0.9, 0}, {inside, 0.8, 0}}}});
  EXPECT_TRUE(std::isnan(only.operating_point.score_threshold)) << "no detection counts";
  EXPECT_EQ(only.operating_point.confusion, (Matrix{{0, 0}, {0, 0}}));
  // A dog in a crowd of cats is wrong.
  const AtIou50 at = at_iou_50_of(
      {{{thing(crowd, 0, true), thing(kHere, 0)}, {{inside, 0.9, 0}, {inside, 0.8, 1}, {kHere, 0.7, 0}}}}, 2);
  expect_counts(at.operating_point.all, 1, 1, 0);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{1, 0, 0}, {0, 0, 0}, {0, 1, 0}}));
}

TEST(AtIou50, ABetterDetectionOfAnotherClassTakesTheObject) {
  // COCO, class by class, counts the cat as found; in the matrix it is a cat that was taken for a dog.
  const AtIou50 at = at_iou_50_of({{{thing(kHere, 0)}, {{kHere, 0.9, 1}, {kHere, 0.8, 0}}}}, 2);
  expect_counts(at.operating_point.per_category[0], 1, 0, 0);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{0, 1, 0}, {0, 0, 0}, {1, 0, 0}}));
}

TEST(AtIou50, OneBoxWithTwoClassesIsFoundInBoth) {
  const AtIou50 at = at_iou_50_of({{{thing(kHere, 0), thing(kHere, 1)}, {{kHere, 0.9, 0}, {kHere, 0.8, 1}}}}, 2);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{1, 0, 0}, {0, 1, 0}, {0, 0, 0}}));
}

TEST(AtIou50, OnlyTheHundredBestDetectionsOfAClassInAnImageCount) {
  CocoImage image{{thing(kHere), thing(kApart, 1)}, {{kHere, 0.5, 0}, {kApart, 0.4, 1}}};
  for (int i = 0; i < 100; ++i) image.detections.push_back({kElsewhere, 0.9, 0});
  const AtIou50 at = at_iou_50_of({image}, 2);
  EXPECT_EQ(at.operating_point.score_threshold, 0.4);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{0, 0, 1}, {0, 1, 0}, {100, 0, 0}}));
}

TEST(AtIou50, TheObjectOfIdZeroIsMissedAsForPycocotools) {
  CocoImage image{{thing(kHere), thing(kElsewhere)}, {{kHere, 0.9, 0}, {kElsewhere, 0.8, 0}}};
  image.objects[0].id_is_zero = true;
  const AtIou50 at = at_iou_50_of({image});
  expect_counts(at.operating_point.all, 1, 1, 1);
  EXPECT_EQ(at.operating_point.confusion, (Matrix{{1, 1}, {1, 0}}));
}

// A second implementation, on boxes of whole pixels, which it counts one by one.
class ByPixels {
 public:
  explicit ByPixels(const std::vector<CocoImage>& images) : images_(images) {}

  // Each detection from `threshold` up and each missed object; -1 for background and missed. `category` -1 matches
  // across all classes, else one alone.
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs(double threshold, int64_t category) const {
    std::map<std::pair<int64_t, int64_t>, int64_t> counts;
    for (const CocoImage& image : images_) {
      std::set<size_t> used, left;
      for (size_t d = 0; d < image.detections.size(); ++d)
        if (image.detections[d].score >= threshold && of(image.detections[d].category, category)) left.insert(d);
      while (!left.empty()) {
        size_t best = *left.begin();
        for (size_t d : left)
          if (image.detections[d].score > image.detections[best].score) best = d;
        left.erase(best);
        const CocoImage::Detection& detection = image.detections[best];
        // (overlap, own class, index), the largest first
        std::set<std::tuple<double, bool, size_t>> free;
        bool in_crowd = false;
        for (size_t g = 0; g < image.objects.size(); ++g) {
          const CocoImage::Object& object = image.objects[g];
          if (!of(object.category, category)) continue;
          const double iou = overlap_of(detection.box_xywh, object.box_xywh, object.is_crowd);
          if (iou < 0.5) continue;
          const bool own = object.category == detection.category;
          if (object.is_crowd)
            in_crowd = in_crowd || own;
          else if (!used.count(g))
            free.insert({iou, own, g});
        }
        if (!free.empty()) {
          const size_t g = std::get<2>(*free.rbegin());
          used.insert(g);
          ++counts[{image.objects[g].category, detection.category}];
        } else if (!in_crowd) {
          ++counts[{-1, detection.category}];
        }
      }
      for (size_t g = 0; g < image.objects.size(); ++g)
        if (!image.objects[g].is_crowd && !used.count(g) && of(image.objects[g].category, category))
          ++counts[{image.objects[g].category, -1}];
    }
    return counts;
  }

 private:
  static bool of(int64_t own, int64_t category) { return category < 0 || own == category; }

  static double overlap_of(const std::array<double, 4>& a, const std::array<double, 4>& b, bool crowd) {
    std::set<std::pair<int, int>> first, both;
    for (int y = 0; y < a[3]; ++y)
      for (int x = 0; x < a[2]; ++x) first.insert({static_cast<int>(a[1]) + y, static_cast<int>(a[0]) + x});
    for (int y = 0; y < b[3]; ++y)
      for (int x = 0; x < b[2]; ++x) {
        const std::pair<int, int> pixel{static_cast<int>(b[1]) + y, static_cast<int>(b[0]) + x};
        if (first.count(pixel)) both.insert(pixel);
      }
    const double shared = static_cast<double>(both.size()), own = static_cast<double>(first.size());
    return shared / (crowd ? own : own + b[2] * b[3] - shared);
  }

  const std::vector<CocoImage>& images_;
};

std::vector<DetectionCounts> counts_at(const ByPixels& reference, double threshold, int64_t num_categories) {
  std::vector<DetectionCounts> counts;
  for (int64_t k = 0; k < num_categories; ++k) {
    auto pairs = reference.pairs(threshold, k);
    counts.push_back({pairs[{k, k}], pairs[{-1, k}], pairs[{k, -1}]});
  }
  return counts;
}

TEST(AtIou50, AgreesWithCountingPixelsOnRandomData) {
  std::minstd_rand draws(7);
  const auto draw = [&](unsigned limit) { return static_cast<double>(draws() % limit); };
  for (int round = 0; round < 40; ++round) {
    // Small boxes near each other and few scores: many equal overlaps and scores. The last class has no objects.
    const int64_t num_categories = 1 + round % 4, of_objects = std::max<int64_t>(1, num_categories - 1);
    std::vector<CocoImage> images(static_cast<size_t>(round) % 7);
    const auto box = [&]() -> std::array<double, 4> { return {draw(4), draw(4), 2 + draw(4), 2 + draw(4)}; };
    const auto category = [&](int64_t limit) { return static_cast<int64_t>(draw(static_cast<unsigned>(limit))); };
    for (CocoImage& image : images) {
      for (double i = draw(6); i > 0; --i) image.objects.push_back(thing(box(), category(of_objects), draw(6) == 0));
      for (double i = draw(12); i > 0; --i)
        image.detections.push_back({box(), (1 + draw(5)) / 8, category(num_categories)});
    }
    const ByPixels reference(images);
    // The threshold: every score is tried.
    double threshold = kNotAvailable;
    std::vector<DetectionCounts> expected = counts_at(reference, 2, num_categories);
    int64_t before = 0, best_right = 0, best_sum = 1;
    for (double score : {5 / 8.0, 4 / 8.0, 3 / 8.0, 2 / 8.0, 1 / 8.0}) {
      const std::vector<DetectionCounts> counts = counts_at(reference, score, num_categories);
      int64_t right = 0, sum = 0;  // F1 is 2 right / sum
      int64_t counting = 0;
      for (const DetectionCounts& own : counts) {
        right += own.true_positives;
        counting += own.true_positives + own.false_positives;
        sum += 2 * own.true_positives + own.false_positives + own.false_negatives;
      }
      if (counting == before || right * best_sum < best_right * sum) continue;
      before = counting;
      best_right = right;
      best_sum = sum;
      threshold = score;
      expected = counts;
    }
    const AtIou50 at = at_iou_50_of(images, num_categories);
    const OperatingPoint& point = at.operating_point;
    SCOPED_TRACE(round);
    if (std::isnan(threshold))
      EXPECT_TRUE(std::isnan(point.score_threshold));
    else
      EXPECT_EQ(point.score_threshold, threshold);
    Matrix matrix(num_categories + 1, std::vector<int64_t>(num_categories + 1, 0));
    const auto at_or_last = [&](int64_t k) { return k < 0 ? num_categories : k; };
    for (const auto& [pair, count] : reference.pairs(std::isnan(threshold) ? 2 : threshold, -1))
      matrix[at_or_last(pair.first)][at_or_last(pair.second)] = count;
    EXPECT_EQ(point.confusion, matrix);
    for (int64_t k = 0; k < num_categories; ++k)
      expect_counts(point.per_category[k], expected[k].true_positives, expected[k].false_positives,
                    expected[k].false_negatives);
    // Matched within the one class there is, the matrix holds the same counts.
    if (num_categories == 1) {
      EXPECT_EQ(point.confusion[0][0], point.all.true_positives);
      EXPECT_EQ(point.confusion[1][0], point.all.false_positives);
      EXPECT_EQ(point.confusion[0][1], point.all.false_negatives);
    }
  }
}

TEST(AtIou50, ThreadsAndImagesInPartsChangeNothing) {
  std::vector<CocoImage> images(700);
  for (size_t i = 0; i < images.size(); ++i)
    images[i] = {{thing(kHere, static_cast<int64_t>(i % 3))},
                 {{kHere, 0.1 + 0.001 * static_cast<double>(i % 90), static_cast<int64_t>(i % 4 % 3)}}};
  const OperatingPoint one = evaluate_coco(images, 3, 1).at_iou_50.operating_point;
  const OperatingPoint four = evaluate_coco(images, 3, 4).at_iou_50.operating_point;
  EXPECT_EQ(one.score_threshold, four.score_threshold);
  EXPECT_EQ(one.confusion, four.confusion);
  int64_t objects = 0;
  for (size_t row = 0; row < 3; ++row)
    for (int64_t count : one.confusion[row]) objects += count;
  EXPECT_EQ(objects, 700);
}

TEST(AtIou50, TheTableNamesTheThreshold) {
  const CocoResult result = evaluate_coco({{{thing(kHere)}, {{kHere, 0.9, 0}, {kApart, 0.95, 0}, {kHere, 0.1, 1}}}}, 2);
  const auto rows = per_class_rows(result, {{1, "cat"}, {2, "dog"}});
  const std::string text = per_class_table(rows, &result.at_iou_50);
  EXPECT_THAT(text, HasSubstr("detections       P       R      F1\n"));
  EXPECT_THAT(text, HasSubstr("2   0.500   1.000   0.667\n"));
  EXPECT_THAT(text, HasSubstr("scores from 0.9000, the best for F1 of all classes together: 0.500, 1.000, 0.667\n"));
  EXPECT_THAT(per_class_table(rows), Not(HasSubstr("F1")));
}

}  // namespace
}  // namespace osprey::eval
