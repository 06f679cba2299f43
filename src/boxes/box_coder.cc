#include "osprey/boxes/box_coder.h"

#include <ATen/ATen.h>

namespace osprey::boxes {

at::Tensor BoxCoder::decode_keypoints(const at::Tensor&, const at::Tensor&) const {
  TORCH_CHECK(false, "this box coder has no keypoints");
}

}  // namespace osprey::boxes
