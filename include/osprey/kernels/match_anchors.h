#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/match_options.h"

namespace osprey::kernels {

/// Gives each anchor the box it overlaps most (IoU), without the M x A matrix in memory.
///
/// Ties go to the lower box; a box that forces takes its best anchor, ties to the lower anchor (anchor 0 where it
/// overlaps none); where two boxes claim one anchor, the lower box has it and the other gets nothing. No valid box: all
/// background.
///
/// boxes    [B, M, 4] float32  in the unit of the anchors; a box that is not finite does not take part
/// valid    [B, M] bool        false marks padding: the row does not take part, so that padding never changes a result
/// forcing  [B, M] bool        false: the box takes part but claims no anchor
/// anchors  [A, 4] float32
/// returns  [B, A] int64: index into the M boxes, Match::kBackground or Match::kIgnore
/// throws   c10::Error when shapes or types disagree
/// operator osprey::match_anchors
at::Tensor match_anchors(const at::Tensor& boxes, const at::Tensor& valid, const at::Tensor& forcing,
                         const at::Tensor& anchors, const MatchOptions& options);

/// The same decision from a matrix of similarities of any kind, of one image; NaN is never the best.
///
/// similarity  [M, A] float; decided on the CPU: from a GPU it is copied, which waits for it
/// forcing     [M] bool; undefined: every row forces
/// returns     [A] int64 on the CPU
/// throws      c10::Error when shapes or types disagree
at::Tensor match_similarity(const at::Tensor& similarity, const at::Tensor& forcing, const MatchOptions& options);

}  // namespace osprey::kernels
