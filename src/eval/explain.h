#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// Counts, image by image, what can make every number of an evaluation 0 or missing, and says so in words.
class Explainer {
 public:
  explicit Explainer(const std::vector<Category>& categories);

  void add_image(const ImageGroundTruth& truth, const ImageDetections& found);
  void add_not_finite(int64_t count) { not_finite_ += count; }
  /// Images for which the network gave a score that is NaN or infinite.
  void add_broken_images(int64_t count) { broken_images_ += count; }

  /// The likeliest causes, each with its count, most telling first, at most five; `min_score` is that of the pictures.
  std::vector<std::string> causes(double min_score) const;

  int64_t num_objects() const { return objects_; }
  int64_t num_detections() const { return detections_; }

 private:
  std::set<int64_t> known_, object_ids_, detection_ids_;  // category ids
  int64_t images_ = 0, objects_ = 0, crowds_ = 0, foreign_objects_ = 0, detections_ = 0, not_finite_ = 0,
          broken_images_ = 0;
  int64_t overlapped_ = 0, overlapped_by_own_class_ = 0, crowded_images_ = 0;
  double best_overlap_ = 0, best_score_ = 0;
};

}  // namespace osprey::eval
