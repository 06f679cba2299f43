#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "osprey/eval/coco_metrics.h"
#include "osprey/eval/gallery.h"

namespace osprey::eval {

/// Chooses the images of a gallery. Until the threshold is known it keeps the boxes of all images, no pictures.
class GalleryRanking {
 public:
  explicit GalleryRanking(const std::vector<Category>& categories);

  /// An image, of which id, place and size are set.
  void add(GalleryImage image, const ImageGroundTruth& truth, const ImageDetections& found);

  /// At most `count` of the worst and as many of the best, still without pictures.
  Gallery chosen(double score_threshold, int64_t count) &&;

 private:
  struct Candidate {
    GalleryImage image;
    CocoImage boxes;
  };
  std::map<int64_t, int64_t> index_;
  std::vector<Candidate> candidates_;  ///< in the order of the data set
};

}  // namespace osprey::eval
