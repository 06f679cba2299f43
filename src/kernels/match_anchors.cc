#include "osprey/kernels/match_anchors.h"

#include <ATen/ATen.h>

#include "kernels/cpu/match_anchors.h"

namespace osprey::kernels {

at::Tensor match_anchors(const at::Tensor& boxes, const at::Tensor& valid, const at::Tensor& forcing,
                         const at::Tensor& anchors, const MatchOptions& options) {
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(2) == 4, "boxes must be [B, M, 4], got ", boxes.sizes());
  TORCH_CHECK(anchors.dim() == 2 && anchors.size(1) == 4, "anchors must be [A, 4], got ", anchors.sizes());
  TORCH_CHECK(boxes.scalar_type() == at::kFloat && anchors.scalar_type() == at::kFloat,
              "boxes and anchors must be float32");
  const int64_t B = boxes.size(0), M = boxes.size(1), A = anchors.size(0);
  for (const at::Tensor* mask : {&valid, &forcing})
    TORCH_CHECK(mask->sizes() == at::IntArrayRef({B, M}) && mask->scalar_type() == at::kBool,
                "valid and forcing must be bool [", B, ", ", M, "], got ", mask->sizes());

  // The one implementation is for the CPU; tensors of another device are copied there and the match back.
  const auto on_cpu = [](const at::Tensor& t) { return t.detach().to(at::kCPU).contiguous(); };
  const at::Tensor b = on_cpu(boxes), v = on_cpu(valid), f = on_cpu(forcing), a = on_cpu(anchors);
  at::Tensor match = at::empty({B, A}, at::kLong);
  cpu::match_anchors(b.data_ptr<float>(), v.data_ptr<bool>(), f.data_ptr<bool>(), a.data_ptr<float>(), B, M, A, options,
                     match.data_ptr<int64_t>());
  return match.to(boxes.device());
}

at::Tensor match_similarity(const at::Tensor& similarity, const at::Tensor& forcing, const MatchOptions& options) {
  TORCH_CHECK(similarity.dim() == 2, "similarity must be [M, A], got ", similarity.sizes());
  const int64_t M = similarity.size(0), A = similarity.size(1);
  TORCH_CHECK(!forcing.defined() || (forcing.sizes() == at::IntArrayRef({M}) && forcing.scalar_type() == at::kBool),
              "forcing must be bool [", M, "]");
  const at::Tensor s = similarity.detach().to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor f = forcing.defined() ? forcing.to(at::kCPU).contiguous() : forcing;
  at::Tensor match = at::empty({A}, at::kLong);
  cpu::match_similarity(s.data_ptr<float>(), f.defined() ? f.data_ptr<bool>() : nullptr, M, A, options,
                        match.data_ptr<int64_t>());
  return match;
}

}  // namespace osprey::kernels
