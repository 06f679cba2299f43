#pragma once
#include <vector>

#include "osprey/core/example.h"
#include "osprey/data/image_resizer.h"
#include "osprey/train/dataset_check.h"
#include "train/anchor_reach.h"

namespace osprey::train {

/// What is measured of boxes as the network sees them.
struct BoxMeasures {
  BoxSizes sizes;
  BoxShapes shapes;
  std::vector<Box> placed;  ///< of one picture, in the coordinates of the anchors: fractions of the canvas
};

/// Boxes of weight 0 are left out.
/// anchors  null: none is said to be reached
BoxMeasures measure_boxes(const Example& example, const data::ImageResizer& resizer, const AnchorReach* anchors);

/// Adds the counts of one to those of another.
template <size_t kLimits>
void add_counts(BoxCounts<kLimits>& sum, const BoxCounts<kLimits>& counts) {
  for (size_t i = 0; i <= kLimits; ++i) {
    sum.boxes[i] += counts.boxes[i];
    sum.reached[i] += counts.reached[i];
  }
}

}  // namespace osprey::train
