#include "boxes/center_coding.h"

#include <ATen/TracerMode.h>

#include "osprey/boxes/geometry.h"
#include "osprey/kernels/box_codes.h"

namespace osprey::boxes {

void check_codes(const at::Tensor& codes, const at::Tensor& anchors, int64_t code_size) {
  TORCH_CHECK(anchors.dim() >= 2 && anchors.size(-1) == 4, "anchors must be [A, 4], got ", anchors.sizes());
  TORCH_CHECK(codes.dim() >= 2 && codes.size(-1) == code_size && codes.size(-2) == anchors.size(-2),
              "box codes must be [..., ", anchors.size(-2), ", ", code_size, "], got ", codes.sizes());
}

void check_boxes(const at::Tensor& boxes, const at::Tensor& anchors) { check_codes(boxes, anchors, 4); }

at::Tensor encode_center_size(const at::Tensor& boxes, const at::Tensor& anchors, const CodeScales& scales) {
  check_boxes(boxes, anchors);
  const at::Tensor a = to_center_size(anchors), b = to_center_size(boxes);
  const at::Tensor anchor_height = a.select(-1, 2) + kEpsilon, anchor_width = a.select(-1, 3) + kEpsilon;
  return at::stack({(b.select(-1, 0) - a.select(-1, 0)) / anchor_height * scales.y,
                    (b.select(-1, 1) - a.select(-1, 1)) / anchor_width * scales.x,
                    ((b.select(-1, 2) + kEpsilon) / anchor_height).log() * scales.height,
                    ((b.select(-1, 3) + kEpsilon) / anchor_width).log() * scales.width},
                   -1);
}

at::Tensor decode_center_size(const at::Tensor& codes, const at::Tensor& anchors, const CodeScales& scales) {
  check_boxes(codes, anchors);
  // An exported model has to do with the operations of libtorch.
  if (!at::tracer::impl::is_dispatch_enabled() && kernels::takes_box_codes(codes, anchors))
    return kernels::decode_boxes(codes, anchors, scales);
  const at::Tensor a = to_center_size(anchors);
  const at::Tensor anchor_height = a.select(-1, 2), anchor_width = a.select(-1, 3);
  return to_corners(at::stack({codes.select(-1, 0) / scales.y * anchor_height + a.select(-1, 0),
                               codes.select(-1, 1) / scales.x * anchor_width + a.select(-1, 1),
                               (codes.select(-1, 2) / scales.height).exp() * anchor_height,
                               (codes.select(-1, 3) / scales.width).exp() * anchor_width},
                              -1));
}

}  // namespace osprey::boxes
