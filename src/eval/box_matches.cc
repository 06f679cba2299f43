#include "eval/box_matches.h"

#include <algorithm>

#include "eval/coco_rules.h"

namespace osprey::eval {
namespace {

// The detections and objects of all classes in one image.
class BoxMatcher {
 public:
  BoxMatcher(const CocoImage& image, int64_t num_categories)
      : image_(image), num_categories_(num_categories), taken_(image.objects.size(), false) {}

  std::vector<BoxMatch> matches(double score_threshold) {
    std::vector<BoxMatch> matches;
    for (const int d : detections(score_threshold)) {
      const CocoImage::Detection& detection = image_.detections[d];
      const int found = take(detection, [&](const auto& object) { return !ignored(object); });
      if (found >= 0 && !image_.objects[found].id_is_zero) {
        matches.push_back({d, found});
        continue;
      }
      const bool left_out =
          take(detection,
               [&](const auto& object) { return ignored(object) && object.category == detection.category; }) >= 0 ||
          outside(detection.box_xywh[2] * detection.box_xywh[3], kAllAreas);
      if (!left_out) matches.push_back({.detection = d});
    }
    for (size_t g = 0; g < image_.objects.size(); ++g)
      if (missed(g)) matches.push_back({.object = static_cast<int>(g)});
    return matches;
  }

 private:
  bool known(int64_t category) const { return category >= 0 && category < num_categories_; }
  static bool ignored(const CocoImage::Object& object) { return object.is_crowd || outside(object.area, kAllAreas); }

  bool missed(size_t g) const {
    const CocoImage::Object& object = image_.objects[g];
    return known(object.category) && !ignored(object) && (!taken_[g] || object.id_is_zero);
  }

  // Best first.
  std::vector<int> detections(double score_threshold) const {
    std::vector<int> order;
    for (size_t d = 0; d < image_.detections.size(); ++d)
      if (image_.detections[d].score >= score_threshold && known(image_.detections[d].category))
        order.push_back(static_cast<int>(d));
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return image_.detections[a].score > image_.detections[b].score; });
    if (order.size() <= kMaxDetections) return order;
    std::vector<int> of_class(num_categories_, 0);
    std::erase_if(order, [&](int d) { return ++of_class[image_.detections[d].category] > kMaxDetections; });
    return order;
  }

  // The object that the detection takes, of those that may be; -1 for none.
  template <class MayBe>
  int take(const CocoImage::Detection& detection, const MayBe& may_be) {
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

}  // namespace

std::vector<BoxMatch> match_boxes(const CocoImage& image, int64_t num_categories, double score_threshold) {
  return BoxMatcher(image, num_categories).matches(score_threshold);
}

}  // namespace osprey::eval
