#pragma once

namespace osprey {

/// TorchScript of the parts of a served model that have loops or depend on the picture's size; everything else is
/// traced. The methods read these attributes of their module:
///   net                     traced module: (images [B, 3, H, W] float, true_shapes [B, 2] int64) ->
///                           (boxes [B, A, q, 4] normalised to the canvas, scores [B, A, C])
///   height, width           int: the canvas
///   min_dimension, max_dimension  int: of a resizer that keeps the aspect ratio; 0 for one that does not
///   score_threshold, iou_threshold, soft_nms_sigma  float
///   max_per_class, max_total  int
///   class_agnostic          bool: one suppression for all classes
///   prune                   bool: boxes that clipping leaves without area, and negative scores, are dropped
///   to_content              bool: boxes are relative to the picture instead of the canvas
///   absent_score            float: score of rows beyond the last detection
extern const char* const kServedScript;

}  // namespace osprey
