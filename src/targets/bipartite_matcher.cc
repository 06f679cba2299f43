#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "osprey/core/targets.h"
#include "osprey/protos/bipartite_matcher.pb.h"
#include "osprey/targets/matcher.h"

namespace osprey::targets {
namespace {

/// Greedy one-to-one matching: again and again the most similar pair of a free box and a free anchor; ties go to the
/// lower box, then to the lower anchor. All other anchors are background.
class BipartiteMatcher final : public Matcher {
 public:
  at::Tensor match(const at::Tensor& similarity, const at::Tensor& enabled) const override {
    TORCH_CHECK(similarity.dim() == 2, "similarity must be [M, A], got ", similarity.sizes());
    const int64_t M = similarity.size(0), A = similarity.size(1);
    TORCH_CHECK(!enabled.defined() || enabled.sizes() == at::IntArrayRef({M}), "enabled must be [", M, "]");
    const at::Tensor values = similarity.detach().to(at::kCPU, at::kFloat).contiguous();
    const at::Tensor mask = enabled.defined() ? enabled.to(at::kCPU, at::kBool).contiguous() : at::ones({M}, at::kBool);
    const float* value = values.data_ptr<float>();
    at::Tensor result = at::full({A}, Match::kBackground, at::kLong);
    int64_t* match = result.data_ptr<int64_t>();

    // Each free box remembers its best free anchor, and looks again when that one is taken.
    std::vector<int64_t> best(M, kNone);
    std::vector<bool> free(mask.data_ptr<bool>(), mask.data_ptr<bool>() + M);
    for (int64_t row = 0; row < M; ++row)
      if (free[row]) best[row] = best_free_anchor(value + row * A, match, A);
    for (;;) {
      int64_t winner = kNone;
      for (int64_t row = 0; row < M; ++row)
        if (free[row] && best[row] != kNone &&
            (winner == kNone || value[row * A + best[row]] > value[winner * A + best[winner]]))
          winner = row;
      if (winner == kNone) return result;
      const int64_t taken = best[winner];
      match[taken] = winner;
      free[winner] = false;
      for (int64_t row = 0; row < M; ++row)
        if (free[row] && best[row] == taken) best[row] = best_free_anchor(value + row * A, match, A);
    }
  }

 private:
  static constexpr int64_t kNone = -1;

  static int64_t best_free_anchor(const float* row, const int64_t* match, int64_t A) {
    int64_t best = kNone;
    for (int64_t a = 0; a < A; ++a)
      if (match[a] == Match::kBackground && !std::isnan(row[a]) && (best == kNone || row[a] > row[best])) best = a;
    return best;
  }
};

std::unique_ptr<Matcher> make_bipartite_matcher(const config::ConfigNode<proto::BipartiteMatcher>&) {
  // use_matmul_gather chooses how the original gathers on a TPU; here the product takes forty times as long
  // (bench/kernels/targets_bench.cc), with the same result.
  return std::make_unique<BipartiteMatcher>();
}
OSPREY_REGISTER(Matcher, &make_bipartite_matcher);

}  // namespace
}  // namespace osprey::targets
