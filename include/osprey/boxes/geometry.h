#pragma once
#include <ATen/core/Tensor.h>

/// Geometry of axis-aligned boxes in tensors. Boxes are [ymin, xmin, ymax, xmax] in the last dimension, in any one
/// unit. Every function works on float tensors of any device, keeps their type, and lets gradients flow.
namespace osprey::boxes {

/// [0, 0, 1, 1] as [4], made on the device of the options: nothing is copied there.
at::Tensor unit_square(const at::TensorOptions& options);

/// Heights times widths. boxes [..., 4] -> [...]; negative where exactly one side is flipped.
at::Tensor area(const at::Tensor& boxes);

/// The same boxes as [ycenter, xcenter, height, width]. [..., 4] -> [..., 4]
at::Tensor to_center_size(const at::Tensor& boxes);
/// The inverse of `to_center_size`.
at::Tensor to_corners(const at::Tensor& center_size);

/// Pairwise measures: a [..., N, 4], b [..., K, 4] -> [..., N, K], leading dimensions broadcast.
/// Intersection area; 0 for boxes that do not touch.
at::Tensor intersection(const at::Tensor& a, const at::Tensor& b);
/// Intersection over union; 0 where the intersection is 0 (so for boxes without area).
at::Tensor iou(const at::Tensor& a, const at::Tensor& b);
/// Intersection over the area of b: how much of b lies in a; NaN where b has no area, as in the original.
at::Tensor ioa(const at::Tensor& a, const at::Tensor& b);

/// Generalised IoU in (-1, 1]: iou - (hull - union) / hull, where hull is the area of the smallest box around both; 0 /
/// 0 counts as 0.
///
/// source  Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019
at::Tensor giou(const at::Tensor& a, const at::Tensor& b);

/// Sum of the absolute differences of [ycenter, xcenter, height, width].
///
/// source  Carion et al., "End-to-End Object Detection with Transformers", ECCV 2020
at::Tensor l1(const at::Tensor& a, const at::Tensor& b);
/// Squared Euclidean distance of the corner coordinates, as |a|^2 + |b|^2 - 2 a.b
at::Tensor squared_distance(const at::Tensor& a, const at::Tensor& b);

/// Moves every corner into the window. Boxes outside become boxes without area on its border; none is removed.
/// boxes [..., N, 4]   window [4] or [..., 4]
at::Tensor clip_to_window(const at::Tensor& boxes, const at::Tensor& window);

/// Expresses boxes as fractions of the window: its corner becomes (0, 0), its far corner (1, 1).
/// boxes [..., N, 4]   window [4] or [..., 4], not empty
at::Tensor change_coordinate_frame(const at::Tensor& boxes, const at::Tensor& window);

/// Multiplies y by `y_scale` and x by `x_scale`.
at::Tensor scale(const at::Tensor& boxes, double y_scale, double x_scale);

}  // namespace osprey::boxes
