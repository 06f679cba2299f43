#include "optim/rate_checks.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

/// One rate from each boundary on.
struct Stage {
  int64_t begin;
  float rate;
};

/// The rate of the last stage that has begun; with warm-up, a straight line from the first rate to the second before.
class ManualStepLearningRate final : public LearningRate {
 public:
  /// stages  begins strictly ascending, the first at 0
  ManualStepLearningRate(std::vector<Stage> stages, bool warmup) : stages_(std::move(stages)), warmup_(warmup) {}

  double at(int64_t step) const override {
    if (warmup_ && stages_.size() > 1 && step < stages_[1].begin) {
      const double first = stages_[0].rate,
                   slope = (double{stages_[1].rate} - first) / static_cast<double>(stages_[1].begin);
      return static_cast<float>(first + slope * static_cast<double>(step));
    }
    const auto next = std::upper_bound(stages_.begin() + 1, stages_.end(), step,
                                       [](int64_t s, const Stage& stage) { return s < stage.begin; });
    return std::prev(next)->rate;
  }

  std::optional<int64_t> end() const override {
    if (stages_.back().rate != 0) return std::nullopt;
    return stages_.back().begin;
  }

 private:
  std::vector<Stage> stages_;
  bool warmup_;
};

std::unique_ptr<LearningRate> make_manual_step_learning_rate(
    const config::ConfigNode<proto::ManualStepLearningRate>& cfg) {
  if (cfg->schedule().empty()) cfg.fail("schedule", "must have at least one entry");
  std::vector<Stage> stages{{0, checked_rate(cfg, "initial_learning_rate", cfg->initial_learning_rate())}};
  for (int i = 0; i < cfg->schedule_size(); ++i) {
    const auto& entry = cfg->schedule(i);
    const auto node = cfg.child("schedule", i, entry);
    if (i > 0 && entry.step() <= stages.back().begin)
      node.fail("step", fmt::format("must be larger than that of the entry before, {}, got {}", stages.back().begin,
                                    entry.step()));
    if (i == 0 && cfg->warmup() && entry.step() == 0) node.fail("step", "must be > 0 with warmup, got 0");
    stages.push_back({entry.step(), checked_rate(node, "learning_rate", entry.learning_rate())});
  }
  return std::make_unique<ManualStepLearningRate>(std::move(stages), cfg->warmup());
}
OSPREY_REGISTER(LearningRate, &make_manual_step_learning_rate);

}  // namespace
}  // namespace osprey::optim
