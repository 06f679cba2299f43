#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace osprey::losses {

/// Which anchors were kept, and their losses.
struct MinedLosses {
  at::Tensor localization;                       ///< scalar: sum over the kept anchors; gradients flow
  at::Tensor classification;                     ///< scalar, likewise
  at::Tensor kept;                               ///< [B, A] bool
  std::vector<std::vector<int64_t>> selected;    ///< per image: the kept anchors, highest loss first
  int64_t num_positives = 0, num_negatives = 0;  ///< kept in the whole batch; ignored anchors count in neither
};

struct MinerOptions {
  enum class Rank { kBoth, kClassification, kLocalization };
  int64_t num_hard_examples = 64;  ///< at most so many per image; 0: no limit
  double iou_threshold = 0.7;  ///< of two predicted boxes that overlap more, the one with the smaller loss is dropped
  Rank rank = Rank::kBoth;     ///< which loss ranks the anchors
  double classification_weight = 1, localization_weight = 1;  ///< within the ranking by both; the sums stay un-weighted
  double max_negatives_per_positive = 0;  ///< 0: no limit, and `min_negatives_per_image` means nothing
  int64_t min_negatives_per_image = 0;
};

/// Keeps the anchors with the highest loss: the way detectors with few positives were trained before focal loss.
///
/// Anchors are ranked by non-maximum suppression of their decoded boxes with the loss as score. Then, with a limit on
/// negatives, an image keeps its selected positives and the hardest max(min_negatives, int(ratio * positives))
/// negatives; ignored anchors are kept while that quota lasts. An image without positives keeps none unless
/// `min_negatives_per_image` says so.
///
/// source  Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, section 2.2;
///         Shrivastava et al., "Training Region-based Object Detectors with Online Hard Example Mining", CVPR 2016
class HardExampleMiner {
 public:
  explicit HardExampleMiner(const MinerOptions& options) : options_(options) {}

  /// Selection runs on the CPU and waits for the device.
  ///
  /// localization, classification  [B, A] float: losses of each anchor
  /// decoded_boxes                 [B, A, 4] float
  /// match                         [B, A] int64: a box index, Match::kBackground or Match::kIgnore
  MinedLosses operator()(const at::Tensor& localization, const at::Tensor& classification,
                         const at::Tensor& decoded_boxes, const at::Tensor& match) const;

  const MinerOptions& options() const { return options_; }

 private:
  MinerOptions options_;
};

}  // namespace osprey::losses
