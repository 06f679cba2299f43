#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace osprey::kernels {

/// The box of each anchor as an offset from it: [dy / ha, dx / wa, log(h / ha), log(w / wa)], each times its scale.
/// Anchors without a box get zeros. No gradients flow.
///
/// boxes    [B, M, 4] float32
/// match    [B, A] int64: index into the M boxes; below 0: none
/// anchors  [A, 4] float32
/// scales   of the codes of y, x, height and width
/// returns  [B, A, 4] float32
/// throws   c10::Error when shapes or types disagree
/// source   Ren et al., "Faster R-CNN", NIPS 2015, equation 2
/// operator osprey::encode_matched_boxes
at::Tensor encode_matched_boxes(const at::Tensor& boxes, const at::Tensor& match, const at::Tensor& anchors,
                                const std::array<double, 4>& scales);

}  // namespace osprey::kernels
