#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/code_scales.h"

/// Boxes as offsets from anchors: [dy / ha, dx / wa, log(h / ha), log(w / wa)], each times its scale.
/// source  Ren et al., "Faster R-CNN", NIPS 2015, equation 2. They are made by kernels/assign_targets.h.
namespace osprey::kernels {

/// Whether `decode_boxes` takes these tensors.
bool takes_box_codes(const at::Tensor& codes, const at::Tensor& anchors);

/// The boxes that codes stand for. Gradients flow to the codes.
///
/// codes    [..., A, 4] float32
/// anchors  [A, 4] float32
/// returns  [..., A, 4] float32, corners
/// throws   c10::Error when shapes or types disagree
/// operator osprey::decode_boxes
at::Tensor decode_boxes(const at::Tensor& codes, const at::Tensor& anchors, const CodeScales& scales);

}  // namespace osprey::kernels
