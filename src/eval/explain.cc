#include "eval/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "eval/overlap.h"

namespace osprey::eval {
namespace {

// At most ten ids, the rest as "...".
std::string list(const std::set<int64_t>& ids) {
  std::vector<std::string> shown;
  for (int64_t id : ids) {
    shown.push_back(shown.size() == 10 ? "..." : std::to_string(id));
    if (shown.size() > 10) break;
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace

Explainer::Explainer(const std::vector<Category>& categories) {
  for (const Category& category : categories) known_.insert(category.id);
}

void Explainer::add_image(const ImageGroundTruth& truth, const ImageDetections& found) {
  ++images_;
  detections_ += static_cast<int64_t>(found.boxes_px.size());
  if (found.boxes_px.size() > 100) ++crowded_images_;
  for (size_t d = 0; d < found.boxes_px.size(); ++d) {
    detection_ids_.insert(found.classes[d]);
    best_score_ = std::max(best_score_, found.scores[d]);
  }
  for (size_t g = 0; g < truth.boxes_px.size(); ++g) {
    ++objects_;
    object_ids_.insert(truth.classes[g]);
    if (!truth.is_crowd.empty() && truth.is_crowd[g]) ++crowds_;
    if (!known_.count(truth.classes[g])) ++foreign_objects_;
    double best = 0, best_of_class = 0;
    for (size_t d = 0; d < found.boxes_px.size(); ++d) {
      const double overlap = iou(truth.boxes_px[g], found.boxes_px[d]);
      best = std::max(best, overlap);
      if (found.classes[d] == truth.classes[g]) best_of_class = std::max(best_of_class, overlap);
    }
    best_overlap_ = std::max(best_overlap_, best);
    overlapped_ += best >= 0.5 ? 1 : 0;
    overlapped_by_own_class_ += best_of_class >= 0.5 ? 1 : 0;
  }
}

std::vector<std::string> Explainer::causes(double min_score) const {
  std::vector<std::string> causes;
  auto say = [&](bool holds, const std::string& text) {
    if (holds) causes.push_back(text);
  };
  std::set<int64_t> shared;
  std::set_intersection(object_ids_.begin(), object_ids_.end(), detection_ids_.begin(), detection_ids_.end(),
                        std::inserter(shared, shared.begin()));
  say(images_ == 0, "no image was evaluated");
  say(images_ > 0 && objects_ == 0, fmt::format("none of the {} images has an annotated object", images_));
  say(objects_ > 0 && crowds_ == objects_,
      fmt::format("all {} objects are marked as crowds, which need not be found", objects_));
  say(foreign_objects_ > 0,
      fmt::format("{} of {} objects have an id that the label map lacks; ids in the data: {}; in the label map: {}",
                  foreign_objects_, objects_, list(object_ids_), list(known_)));
  say(not_finite_ > 0,
      fmt::format("{} detections were NaN or infinite: the weights are damaged or training diverged", not_finite_));
  say(broken_images_ > 0,
      fmt::format("the network's scores were NaN or infinite on {} of {} images: the weights are damaged or "
                  "training diverged",
                  broken_images_, images_));
  say(images_ > 0 && detections_ == 0 && broken_images_ == 0 && not_finite_ == 0,
      fmt::format("nothing was detected on {} images: every score is below post_processing's score_threshold",
                  images_));
  say(objects_ > 0 && detections_ > 0 && shared.empty(),
      fmt::format("no class is both annotated and detected: annotated ids {}, detected ids {}", list(object_ids_),
                  list(detection_ids_)));
  say(overlapped_ > 0 && 10 * overlapped_ >= objects_ && 2 * overlapped_by_own_class_ < overlapped_,
      fmt::format("{} of {} objects are overlapped (IoU >= 0.5) by a detection, but only {} by one of their own class: "
                  "are the ids of data and label map the same?",
                  overlapped_, objects_, overlapped_by_own_class_));
  say(objects_ > 0 && detections_ > 0 && overlapped_ == 0,
      fmt::format(
          "none of {} detections overlaps one of {} objects by IoU 0.5 (the best by {:.2f}): too little training, or "
          "anchors that do not fit the boxes",
          detections_, objects_, best_overlap_));
  say(detections_ > 0 && best_score_ < min_score,
      fmt::format("the best of {} scores is {:.3f}: the detector is not sure of anything yet", detections_,
                  best_score_));
  say(crowded_images_ > 0,
      fmt::format("{} images have more than 100 detections, of which the best 100 of each class count",
                  crowded_images_));
  if (causes.size() > 5) causes.resize(5);
  return causes;
}

}  // namespace osprey::eval
