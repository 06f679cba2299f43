#pragma once
#include <vector>

#include "train/anchor_reach.h"

namespace osprey::train {

/// How well anchors fit boxes, answered so fast that many generators can be tried: anchors of one size are as good as
/// the one whose centre is nearest, and centres are the same for all sizes.
class AnchorFit {
 public:
  /// generator  any of those that will be tried: they differ in the sizes of their anchors alone
  AnchorFit(const boxes::AnchorGenerator& generator, const AnchorPlaces& places, const std::vector<Box>& boxes);

  struct Score {
    int64_t reached = 0;  ///< boxes that an anchor overlaps by the threshold or more
    double overlap = 0;   ///< sum over all boxes of the best IoU
    bool better_than(const Score& other) const {
      return reached != other.reached ? reached > other.reached : overlap > other.overlap;
    }
  };
  Score of(const boxes::AnchorGenerator& generator) const;

 private:
  AnchorPlaces places_;
  std::vector<std::vector<Box>> boxes_;  // of each feature map: as seen from the nearest centre
};

}  // namespace osprey::train
