#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/core/detections.h"

namespace osprey::boxes {

/// How class logits become scores.
enum class ScoreConverter { kIdentity, kSigmoid, kSoftmax };

/// A calibration curve: straight lines between points, flat outside. No points: the score stays as it is.
struct CalibrationCurve {
  std::vector<float> x, y;  ///< of the same length; x ascending
};

struct ScoreOptions {
  ScoreConverter converter = ScoreConverter::kIdentity;
  float logit_scale = 1;                       ///< logits are divided by it
  float temperature = 1;                       ///< logits are divided by it too (temperature-scaling calibration)
  CalibrationCurve curve;                      ///< applied to the scores of every class
  std::vector<CalibrationCurve> class_curves;  ///< by column of the logits, background included where there is one
};

/// Scores of logits: converter(logits / logit_scale / temperature), then the calibration curves.
/// logits [..., C] -> [..., C] of the same type; softmax is over the last dimension.
at::Tensor convert_scores(const at::Tensor& logits, const ScoreOptions& options);

/// The last part of a detector: logits and boxes, decoded or not -> detections. Build one with `build_post_processor`
/// (boxes/builder.h).
class PostProcessor {
 public:
  PostProcessor(NmsOptions nms, ScoreOptions scores) : nms_(nms), scores_(std::move(scores)) {}

  /// boxes        [B, A, 4], or [B, A, C, 4]; normalised to the padded canvas; with `coding` codes, [B, A, 4]
  /// logits       [B, A, C + 1] with `has_background` (column 0, dropped after the conversion), else [B, A, C]
  /// clip_window  [4] or [B, 4], the un-padded picture in the coordinates of the boxes (`true_image_windows`)
  /// throws       c10::Error when shapes disagree
  Detections operator()(const at::Tensor& boxes, const at::Tensor& logits, bool has_background,
                        const at::Tensor& clip_window, const BoxCoding* coding = nullptr) const;

  /// The same with the anchors that the detections came from.
  NmsResult with_indices(const at::Tensor& boxes, const at::Tensor& logits, bool has_background,
                         const at::Tensor& clip_window, const BoxCoding* coding = nullptr) const;

  const NmsOptions& nms() const { return nms_; }
  const ScoreOptions& scores() const { return scores_; }

 private:
  NmsOptions nms_;
  ScoreOptions scores_;
};

/// The un-padded picture as a window on the padded canvas: [0, 0, height / canvas_height, width / canvas_width].
/// true_shapes [B, 2] int64 -> [B, 4] float32 on the same device
at::Tensor true_image_windows(const at::Tensor& true_shapes, int64_t canvas_height, int64_t canvas_width);

}  // namespace osprey::boxes
