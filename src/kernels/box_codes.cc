#include "osprey/kernels/box_codes.h"

#include <ATen/ATen.h>

#include "kernels/device/boxes.h"
#include "kernels/operator.h"

namespace osprey::kernels {
namespace {

at::Tensor encode_matched(const at::Tensor& boxes, const at::Tensor& match, const at::Tensor& anchors,
                          at::ArrayRef<double> scales) {
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(2) == 4 && boxes.scalar_type() == at::kFloat,
              "boxes must be float32 [B, M, 4], got ", boxes.toString(), " ", boxes.sizes());
  TORCH_CHECK(anchors.dim() == 2 && anchors.size(1) == 4 && anchors.scalar_type() == at::kFloat,
              "anchors must be float32 [A, 4], got ", anchors.toString(), " ", anchors.sizes());
  const int64_t B = boxes.size(0), M = boxes.size(1), A = anchors.size(0);
  TORCH_CHECK(match.scalar_type() == at::kLong && match.sizes() == at::IntArrayRef({B, A}), "match must be int64 [", B,
              ", ", A, "], got ", match.toString(), " ", match.sizes());
  TORCH_CHECK(scales.size() == 4, "expected 4 scales, got ", scales.size());
  at::Tensor codes = at::empty({B, A, 4}, boxes.options());
  if (boxes.is_meta()) return codes;
  const at::Tensor b = boxes.contiguous(), m = match.contiguous(), a = anchors.contiguous();
  const auto scale = [&](size_t k) { return static_cast<float>(scales[k]); };
  device::for_each(boxes, B * A,
                   device::EncodeMatched{b.const_data_ptr<float>(),
                                         m.const_data_ptr<int64_t>(),
                                         a.const_data_ptr<float>(),
                                         M,
                                         A,
                                         {scale(0), scale(1), scale(2), scale(3)},
                                         codes.mutable_data_ptr<float>()});
  return codes;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "encode_matched_boxes(Tensor boxes, Tensor match, Tensor anchors, float[] scales) -> Tensor",
         &encode_matched);
}

}  // namespace

at::Tensor encode_matched_boxes(const at::Tensor& boxes, const at::Tensor& match, const at::Tensor& anchors,
                                const std::array<double, 4>& scales) {
  static const auto operation = find_operator("encode_matched_boxes", &encode_matched);
  return operation.call(boxes.detach(), match, anchors.detach(), scales);
}

}  // namespace osprey::kernels
