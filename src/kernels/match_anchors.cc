#include "osprey/kernels/match_anchors.h"

#include <ATen/ATen.h>

#include "kernels/cpu/match_anchors.h"
#include "kernels/device/match_anchors.h"
#include "kernels/operator.h"
#include "osprey/core/targets.h"

namespace osprey::kernels {
namespace {

static_assert(device::kBackground == Match::kBackground && device::kIgnore == Match::kIgnore);

at::Tensor match(const at::Tensor& boxes, const at::Tensor& valid, const at::Tensor& forcing, const at::Tensor& anchors,
                 bool use_thresholds, double matched_threshold, double unmatched_threshold,
                 bool negatives_lower_than_unmatched, bool force_match_for_each_row) {
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(2) == 4, "boxes must be [B, M, 4], got ", boxes.sizes());
  TORCH_CHECK(anchors.dim() == 2 && anchors.size(1) == 4, "anchors must be [A, 4], got ", anchors.sizes());
  TORCH_CHECK(boxes.scalar_type() == at::kFloat && anchors.scalar_type() == at::kFloat,
              "boxes and anchors must be float32");
  const int64_t B = boxes.size(0), M = boxes.size(1), A = anchors.size(0);
  for (const at::Tensor* mask : {&valid, &forcing})
    TORCH_CHECK(mask->sizes() == at::IntArrayRef({B, M}) && mask->scalar_type() == at::kBool,
                "valid and forcing must be bool [", B, ", ", M, "], got ", mask->sizes());
  at::Tensor match = at::empty({B, A}, boxes.options().dtype(at::kLong));
  if (boxes.is_meta()) return match;

  const MatchOptions options{use_thresholds, static_cast<float>(matched_threshold),
                             static_cast<float>(unmatched_threshold), negatives_lower_than_unmatched,
                             force_match_for_each_row};
  const at::Tensor b = boxes.contiguous(), v = valid.contiguous(), f = forcing.contiguous(), a = anchors.contiguous();
  if (device::takes_loops(boxes)) {
    cpu::match_anchors(b.data_ptr<float>(), v.data_ptr<bool>(), f.data_ptr<bool>(), a.data_ptr<float>(), B, M, A,
                       options, match.data_ptr<int64_t>());
    return match;
  }
  const at::Tensor claims = at::zeros({B, M}, match.options());
  auto* const best = device::data<unsigned long long>(claims);
  const device::MatchAnchors search{b.data_ptr<float>(),
                                    v.data_ptr<bool>(),
                                    f.data_ptr<bool>(),
                                    a.data_ptr<float>(),
                                    M,
                                    A,
                                    options,
                                    match.data_ptr<int64_t>(),
                                    best};
  device::launch(boxes, search.blocks(B), search);
  if (force_match_for_each_row && A > 0)
    device::launch(boxes, B, device::ForceMatch{best, M, A, match.data_ptr<int64_t>()});
  return match;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "match_anchors(Tensor boxes, Tensor valid, Tensor forcing, Tensor anchors, bool use_thresholds, "
         "float matched_threshold, float unmatched_threshold, bool negatives_lower_than_unmatched, "
         "bool force_match_for_each_row) -> Tensor",
         &match);
}

}  // namespace

at::Tensor match_anchors(const at::Tensor& boxes, const at::Tensor& valid, const at::Tensor& forcing,
                         const at::Tensor& anchors, const MatchOptions& options) {
  static const auto operation = find_operator("match_anchors", &match);
  return operation.call(boxes.detach(), valid, forcing, anchors.detach(), options.use_thresholds,
                        options.matched_threshold, options.unmatched_threshold, options.negatives_lower_than_unmatched,
                        options.force_match_for_each_row);
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
