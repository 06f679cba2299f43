#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "eval/at_iou_50.h"
#include "eval/coco_rules.h"
#include "eval/parallel.h"

namespace osprey::eval {
namespace {

// Only the score of a right detection can be the best threshold: with a wrong one more, F1 is smaller.
double best_threshold(const std::vector<Verdicts>& verdicts) {
  std::vector<double> candidates;  // scores of right detections, best first
  for (const Verdicts& own : verdicts) candidates.insert(candidates.end(), own.right.begin(), own.right.end());
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  if (candidates.empty()) {
    double lowest = kNotAvailable;
    for (const Verdicts& own : verdicts)
      if (!own.wrong.empty()) lowest = std::fmin(lowest, own.wrong.back());
    return lowest;
  }
  std::vector<int64_t> wrong(candidates.size(), 0);  // that come in with this candidate, the first of equal ones
  for (const Verdicts& own : verdicts) {
    auto at = candidates.begin();
    for (double score : own.wrong) {
      at = std::lower_bound(at, candidates.end(), score, std::greater<>());
      if (at == candidates.end()) break;
      ++wrong[at - candidates.begin()];
    }
  }
  // F1 is 2 right / (right + wrong + objects); two of them are compared as fractions of whole numbers.
  int64_t num_objects = 0;
  for (const Verdicts& own : verdicts) num_objects += own.num_objects;
  double best = kNotAvailable;
  int64_t best_right = 0, best_sum = 1, num_wrong = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    num_wrong += wrong[i];
    if (i + 1 < candidates.size() && candidates[i + 1] == candidates[i]) continue;
    const int64_t right = static_cast<int64_t>(i) + 1, sum = right + num_wrong + num_objects;
    if (right * best_sum < best_right * sum) continue;
    best = candidates[i];
    best_right = right;
    best_sum = sum;
  }
  return best;
}

int64_t count_from(const std::vector<double>& scores, double threshold) {
  return std::partition_point(scores.begin(), scores.end(), [&](double score) { return score >= threshold; }) -
         scores.begin();
}

using Pair = std::array<int64_t, 2>;  // row and column of the confusion matrix

// The detections and objects of all classes in one image.
class Confusions {
 public:
  Confusions(const CocoImage& image, int64_t num_categories)
      : image_(image), num_categories_(num_categories), taken_(image.objects.size(), false) {}

  // The cell of each detection and of each missed object.
  void append_to(std::vector<Pair>& cells, double score_threshold) {
    for (size_t d : detections(score_threshold)) {
      const CocoImage::Detection& detection = image_.detections[d];
      const int found = match(detection, [&](const auto& object) { return !ignored(object); });
      if (found >= 0 && !image_.objects[found].id_is_zero) {
        cells.push_back({image_.objects[found].category, detection.category});
        continue;
      }
      const bool left_out =
          match(detection,
                [&](const auto& object) { return ignored(object) && object.category == detection.category; }) >= 0 ||
          outside(detection.box_xywh[2] * detection.box_xywh[3], kAllAreas);
      if (!left_out) cells.push_back({num_categories_, detection.category});
    }
    for (size_t g = 0; g < image_.objects.size(); ++g)
      if (missed(g)) cells.push_back({image_.objects[g].category, num_categories_});
  }

 private:
  bool known(int64_t category) const { return category >= 0 && category < num_categories_; }
  static bool ignored(const CocoImage::Object& object) { return object.is_crowd || outside(object.area, kAllAreas); }

  bool missed(size_t g) const {
    const CocoImage::Object& object = image_.objects[g];
    return known(object.category) && !ignored(object) && (!taken_[g] || object.id_is_zero);
  }

  // Best first.
  std::vector<size_t> detections(double score_threshold) const {
    std::vector<size_t> order;
    for (size_t d = 0; d < image_.detections.size(); ++d)
      if (image_.detections[d].score >= score_threshold && known(image_.detections[d].category)) order.push_back(d);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return image_.detections[a].score > image_.detections[b].score; });
    if (order.size() <= kMaxDetections) return order;
    std::vector<int> of_class(num_categories_, 0);
    std::erase_if(order, [&](size_t d) { return ++of_class[image_.detections[d].category] > kMaxDetections; });
    return order;
  }

  // The object that the detection takes, of those that may be; -1 for none.
  template <class MayBe>
  int match(const CocoImage::Detection& detection, const MayBe& may_be) {
    double best = 0.5;
    int found = -1;
    for (size_t g = 0; g < image_.objects.size(); ++g) {
      const CocoImage::Object& object = image_.objects[g];
      if (!known(object.category) || (taken_[g] && !object.is_crowd) || !may_be(object)) continue;
      const double iou = overlap(detection.box_xywh, object.box_xywh, object.is_crowd);
      if (iou < best) continue;
      const bool foreign = object.category != detection.category;
      if (found >= 0 && iou == best && foreign && image_.objects[found].category == detection.category) continue;
      best = iou;
      found = static_cast<int>(g);
    }
    if (found >= 0) taken_[found] = true;
    return found;
  }

  const CocoImage& image_;
  const int64_t num_categories_;
  std::vector<bool> taken_;
};

std::vector<std::vector<int64_t>> confusion(const std::vector<CocoImage>& images, int64_t num_categories,
                                            double score_threshold, int num_threads) {
  constexpr int64_t kPart = 256;
  const int64_t num_images = static_cast<int64_t>(images.size());
  std::vector<std::vector<Pair>> parts((num_images + kPart - 1) / kPart);
  parallel_for(static_cast<int64_t>(parts.size()), num_threads, [&](int64_t p) {
    for (int64_t i = p * kPart; i < std::min(num_images, (p + 1) * kPart); ++i)
      Confusions(images[i], num_categories).append_to(parts[p], score_threshold);
  });
  std::vector<std::vector<int64_t>> counts(num_categories + 1, std::vector<int64_t>(num_categories + 1, 0));
  for (const std::vector<Pair>& part : parts)
    for (const auto& [row, column] : part) ++counts[row][column];
  return counts;
}

}  // namespace

OperatingPoint best_operating_point(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                                    int num_threads) {
  OperatingPoint point;
  point.score_threshold = best_threshold(verdicts);
  for (const Verdicts& of_class : verdicts) {
    DetectionCounts own;
    own.true_positives = count_from(of_class.right, point.score_threshold);
    own.false_positives = count_from(of_class.wrong, point.score_threshold);
    own.false_negatives = of_class.num_objects - own.true_positives;
    point.per_category.push_back(own);
    point.all.true_positives += own.true_positives;
    point.all.false_positives += own.false_positives;
    point.all.false_negatives += own.false_negatives;
  }
  point.confusion = confusion(images, static_cast<int64_t>(verdicts.size()), point.score_threshold, num_threads);
  return point;
}

}  // namespace osprey::eval
