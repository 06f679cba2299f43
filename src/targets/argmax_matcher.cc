#include "osprey/protos/argmax_matcher.pb.h"
#include "osprey/targets/matcher.h"

namespace osprey::targets {
namespace {

/// Each anchor gets its most similar box; see kernels/match_anchors.h.
class ArgMaxMatcher final : public Matcher {
 public:
  explicit ArgMaxMatcher(const kernels::MatchOptions& options) : options_(options) {}

  at::Tensor match(const at::Tensor& similarity, const at::Tensor& enabled) const override {
    return kernels::match_similarity(similarity, enabled, options_);
  }
  const kernels::MatchOptions* argmax_options() const override { return &options_; }

 private:
  kernels::MatchOptions options_;
};

std::unique_ptr<Matcher> make_argmax_matcher(const config::ConfigNode<proto::ArgMaxMatcher>& cfg) {
  // use_matmul_gather chooses how the original gathers on a TPU; here the product takes forty times as long
  // (bench/kernels/targets_bench.cc), with the same result.
  kernels::MatchOptions options;
  options.use_thresholds = !cfg->ignore_thresholds();
  options.matched_threshold = cfg->matched_threshold();
  options.unmatched_threshold = cfg->unmatched_threshold();
  options.negatives_lower_than_unmatched = cfg->negatives_lower_than_unmatched();
  options.force_match_for_each_row = cfg->force_match_for_each_row();
  if (options.use_thresholds) {
    if (!(options.unmatched_threshold <= options.matched_threshold))
      cfg.fail("unmatched_threshold", "must be <= matched_threshold (" + std::to_string(options.matched_threshold) +
                                          "), got " + std::to_string(options.unmatched_threshold));
    if (!options.negatives_lower_than_unmatched && options.unmatched_threshold == options.matched_threshold)
      cfg.fail("negatives_lower_than_unmatched", "false needs unmatched_threshold < matched_threshold");
  }
  return std::make_unique<ArgMaxMatcher>(options);
}
OSPREY_REGISTER(Matcher, &make_argmax_matcher);

}  // namespace
}  // namespace osprey::targets
