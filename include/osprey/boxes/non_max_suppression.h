#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "osprey/core/detections.h"
#include "osprey/kernels/code_scales.h"

namespace osprey::boxes {

/// Limits and thresholds of the suppression; post_processing.proto describes each.
struct NmsOptions {
  float score_threshold = 0;   ///< candidates score strictly more
  float iou_threshold = 0.6f;  ///< strictly more overlap with a better box suppresses; in [0, 1], or infinity
  int64_t max_detections_per_class = 100;
  int64_t max_total_detections = 100;  ///< D, the rows of the result
  float soft_nms_sigma = 0;            ///< > 0: scores decay by exp(-iou^2 / (2 sigma)) and iou_threshold is not used
  /// Suppress among all classes, on each box's best class; max_detections_per_class is unused.
  bool class_agnostic = false;
  bool change_coordinate_frame = true;  ///< results are fractions of the clip window
  /// As TensorFlow's combined operator: equal scores in the order in which a binary heap and a sort that is not stable
  /// give them (not with class_agnostic, which that operator does not know), nothing dropped after clipping, and the
  /// unit square where no clip window is given.
  bool combined = false;
  float padding_score = 0;  ///< score of the padded rows
};

/// What codes stand for, see kernels/box_codes.h.
struct BoxCoding {
  at::Tensor anchors;  ///< [A, 4] float32
  kernels::CodeScales scales;
};

/// Detections, and the input row (anchor) each came from.
struct NmsResult {
  Detections detections;
  at::Tensor indices;  ///< [B, D] int64 in [0, A); 0 in padded rows. Gathers whatever else is known about a box.
};

/// Batched multi-class non-maximum suppression with a result of fixed size.
///
/// The computation, in words that another implementation can follow:
///  1. per class, candidates are the rows with score > score_threshold, best first, equal scores by lower row
///     (`combined`: as std::priority_queue over the scores, filled row by row, gives them);
///  2. hard: a candidate is kept unless its IoU with a kept one is > iou_threshold; soft: its score is multiplied by
///     exp(-iou^2 / (2 sigma)) for every kept one and it is queued again until its score stays; at most
///     max_detections_per_class are kept. Corners may be flipped; boxes without area have IoU 0;
///  3. the kept boxes of all classes are sorted by score; equal scores by lower class, then by order of keeping
///     (`combined`: as std::sort of min(max_detections_per_class, A) places per class gives them, empty ones as -1);
///  4. boxes are clipped to the window, those of no area dropped (not if `combined`), the first D remain;
///  5. with change_coordinate_frame the boxes become fractions of the window.
/// No gradients, and on a GPU nothing is read back; there, equal scores are in the order of their rows whatever
/// `combined` says.
///
/// boxes        [B, A, 4], or [B, A, C, 4] with a box per class; float; with `coding` codes, [B, A, 4]
/// scores       [B, A, C] float, without background; NaN is never a candidate
/// clip_window  [4] or [B, 4]; undefined: the hull of all boxes of the batch (`combined`: the unit
///              square), and change_coordinate_frame must be false
/// num_valid    [B] int64: rows from there on are padding; undefined: all rows are real
/// coding       null: `boxes` are boxes; else codes, of which on a CPU those that are looked at are decoded
/// throws       c10::Error when shapes or types disagree, or boxes and scores lie on two devices
/// operator     osprey::batch_non_max_suppression
/// source       Bodla et al., "Soft-NMS", ICCV 2017, for sigma > 0
NmsResult batch_non_max_suppression(const at::Tensor& boxes, const at::Tensor& scores, const NmsOptions& options,
                                    const at::Tensor& clip_window = {}, const at::Tensor& num_valid = {},
                                    const BoxCoding* coding = nullptr);

/// Kept rows of one set of boxes, best first, and their (decayed) scores.
struct Kept {
  std::vector<int64_t> indices;
  std::vector<float> scores;
};

/// Steps 1 and 2 for one class, on memory of the CPU.
/// boxes   [n, 4]      scores  [n]
Kept non_max_suppression(const float* boxes, const float* scores, int64_t n, int64_t max_output_size,
                         float iou_threshold, float score_threshold, float soft_nms_sigma = 0);

/// The same for tensors: boxes [N, 4], scores [N].
Kept non_max_suppression(const at::Tensor& boxes, const at::Tensor& scores, int64_t max_output_size,
                         float iou_threshold, float score_threshold, float soft_nms_sigma = 0);

}  // namespace osprey::boxes
