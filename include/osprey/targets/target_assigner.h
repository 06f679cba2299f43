#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "osprey/boxes/box_coder.h"
#include "osprey/core/targets.h"
#include "osprey/targets/matcher.h"
#include "osprey/targets/region_similarity.h"

namespace osprey::targets {

/// The real boxes of a batch, padded to M per image.
struct Groundtruth {
  at::Tensor boxes;    ///< [B, M, 4] float32, in the coordinates of the anchors (the padded canvas)
  at::Tensor classes;  ///< [B, M] int64, 0-based; or [B, M, C] float32 k-hot (C + 1 with explicit_background_class)
  at::Tensor valid;    ///< [B, M] bool; false marks padding, which never changes a target. undefined: all are real
  at::Tensor weights;  ///< [B, M] float32; undefined: 1. A box of weight 0 claims no anchor and its anchors weigh 0.
  at::Tensor confidences;  ///< [B, M] or [B, M, C] float32, 1 positive, 0 unknown, -1 negative; with
                           ///< use_confidences_as_targets; undefined: classes decide
  at::Tensor keypoints;    ///< [B, M, K, 2] float32; only for a coder with keypoints
};

struct TargetAssignerOptions {
  int64_t num_classes = 1;                 ///< C
  bool add_background_class = true;        ///< put a background column in front of the classes
  bool explicit_background_class = false;  ///< the k-hot classes bring their own background column
  bool encode_background_as_zeros =
      false;                        ///< background anchors have target 0 in every column, instead of 1 in the first
  float negative_class_weight = 1;  ///< weight of background anchors in the classification loss
  bool use_confidences_as_targets = false;
  float implicit_example_weight = 1;  ///< with confidences: weight of the classes that nobody said anything about
};

/// Turns anchors and real boxes into what the losses compare predictions with.
///
/// Matched anchors get the class and the encoded box of their box, and its weight in both losses; background anchors
/// get the background target, `negative_class_weight` and no box loss; ignored anchors get weight 0 in both. With
/// confidences, a class of confidence > 0 is a target, < 0 an explicit negative; both weigh 1 and everything else
/// `implicit_example_weight`; anchors with a positive class weigh 1 in the box loss.
/// No gradients. Targets are on the device of the boxes.
class TargetAssigner {
 public:
  TargetAssigner(std::unique_ptr<RegionSimilarity> similarity, std::unique_ptr<Matcher> matcher,
                 std::unique_ptr<boxes::BoxCoder> coder, const TargetAssignerOptions& options);

  /// anchors  [A, 4] float32
  /// encode   whether codes are wanted: a loss that `encodes` does without
  /// returns  class targets of C + 1 columns (C without background column), boxes [B, A, K], weights [B, A]
  /// throws   c10::Error when shapes disagree, or where a class lies outside [0, C)
  Targets assign(const at::Tensor& anchors, const Groundtruth& groundtruth, bool encode = true) const;

  /// The matching alone, [B, A]. The fused path is taken for IoU with the arg-max matcher, unless `general`.
  Match match(const at::Tensor& anchors, const Groundtruth& groundtruth, bool general = false) const;

  const boxes::BoxCoder& coder() const { return *coder_; }
  const TargetAssignerOptions& options() const { return options_; }

 private:
  std::unique_ptr<RegionSimilarity> similarity_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<boxes::BoxCoder> coder_;
  TargetAssignerOptions options_;
};

}  // namespace osprey::targets
