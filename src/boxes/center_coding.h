#pragma once
#include <ATen/ATen.h>

#include "osprey/kernels/code_scales.h"

namespace osprey::boxes {

/// Added to sizes before a division or logarithm, as in the original, so that boxes without area stay finite.
inline constexpr double kEpsilon = 1e-8;

using kernels::CodeScales;

/// [ty, tx, th, tw] = [dy / ha, dx / wa, log(h / ha), log(w / wa)], each times its scale.
/// Ren et al., "Faster R-CNN", NIPS 2015, equation 2. boxes [..., A, 4], anchors [A, 4] -> [..., A, 4]
at::Tensor encode_center_size(const at::Tensor& boxes, const at::Tensor& anchors, const CodeScales& scales);

/// The inverse, as corners. The anchors' sizes get no epsilon here.
at::Tensor decode_center_size(const at::Tensor& codes, const at::Tensor& anchors, const CodeScales& scales);

/// Throws unless codes are [..., A, code_size] and anchors [A, 4].
void check_codes(const at::Tensor& codes, const at::Tensor& anchors, int64_t code_size);
/// Throws unless boxes are [..., A, 4] and anchors [A, 4].
void check_boxes(const at::Tensor& boxes, const at::Tensor& anchors);

}  // namespace osprey::boxes
