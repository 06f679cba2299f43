#include "osprey/boxes/box_coder.h"

#include <ATen/ATen.h>

#include "osprey/boxes/geometry.h"
#include "osprey/core/targets.h"

namespace osprey::boxes {

at::Tensor BoxCoder::encode_matched(const at::Tensor& boxes, const at::Tensor& match, const at::Tensor& anchors,
                                    const at::Tensor& keypoints) const {
  // Anchors without a box are coded as if they had some box, and then set to zero, whatever came out.
  const at::Tensor row = match.clamp_min(-1) + 1;
  const auto with_first = [](const at::Tensor& first, const at::Tensor& others) {
    std::vector<int64_t> one = others.sizes().vec();
    one[1] = 1;
    return at::cat({first.expand(one), others}, 1);
  };
  at::Tensor own_keypoints;
  if (num_keypoints() > 0) {
    TORCH_CHECK(keypoints.defined() && keypoints.dim() == 4 && keypoints.size(2) == num_keypoints(),
                "keypoints must be [B, M, ", num_keypoints(), ", 2]");
    own_keypoints = rows_of_anchors(with_first(at::zeros({}, keypoints.options()), keypoints), row);
  }
  const at::Tensor codes =
      encode(rows_of_anchors(with_first(unit_square(boxes.options()), boxes), row), anchors, own_keypoints);
  return at::where(match.ge(0).unsqueeze(-1), codes, at::zeros({}, codes.options()));
}

at::Tensor BoxCoder::decode_keypoints(const at::Tensor&, const at::Tensor&) const {
  TORCH_CHECK(false, "this box coder has no keypoints");
}

}  // namespace osprey::boxes
