#include <numbers>

#include "optim/rate_checks.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

struct CosineDecay {
  float base = 0, warmup = 0;
  int64_t total_steps = 0, warmup_steps = 0, hold_steps = 0;
};

/// A straight line from `warmup` to `base`, `base` for hold_steps, then half a cosine down to zero at total_steps,
/// which may come before the cosine: then the rate is zero after it. (The original's is not a number at total_steps
/// where that is warmup_steps and nothing is held; here it is `base`.)
///
/// source  Loshchilov & Hutter, "SGDR", ICLR 2017, eq. 5, without restarts
class CosineDecayLearningRate final : public LearningRate {
 public:
  explicit CosineDecayLearningRate(const CosineDecay& options) : o_(options) {}

  double at(int64_t step) const override {
    if (step > o_.total_steps) return 0;
    if (step < o_.warmup_steps) {
      const double slope = (double{o_.base} - double{o_.warmup}) / static_cast<double>(o_.warmup_steps);
      return static_cast<float>(slope) * static_cast<float>(step) + o_.warmup;
    }
    const int64_t decay_begin = o_.warmup_steps + o_.hold_steps;
    if (step <= decay_begin) return o_.base;
    const float angle = std::numbers::pi_v<float> * static_cast<float>(step - decay_begin) /
                        static_cast<float>(o_.total_steps - decay_begin);
    return 0.5f * o_.base * (1 + std::cos(angle));
  }

  std::optional<int64_t> end() const override {
    const bool reaches_zero = o_.total_steps > o_.warmup_steps + o_.hold_steps;
    return reaches_zero ? o_.total_steps : o_.total_steps + 1;
  }

 private:
  CosineDecay o_;
};

std::unique_ptr<LearningRate> make_cosine_decay_learning_rate(
    const config::ConfigNode<proto::CosineDecayLearningRate>& cfg) {
  CosineDecay options;
  options.base = checked_rate(cfg, "learning_rate_base", cfg->learning_rate_base());
  options.warmup = checked_rate(cfg, "warmup_learning_rate", cfg->warmup_learning_rate());
  options.total_steps = cfg->total_steps();
  options.warmup_steps = cfg->warmup_steps();
  options.hold_steps = cfg->hold_base_rate_steps();
  if (options.total_steps < options.warmup_steps)
    cfg.fail("total_steps",
             fmt::format("must be at least warmup_steps, {}, got {}", options.warmup_steps, options.total_steps));
  if (options.warmup_steps > 0 && options.base < options.warmup)
    cfg.fail("learning_rate_base",
             fmt::format("must be at least warmup_learning_rate, {}, got {}", options.warmup, options.base));
  return std::make_unique<CosineDecayLearningRate>(options);
}
OSPREY_REGISTER(LearningRate, &make_cosine_decay_learning_rate);

}  // namespace
}  // namespace osprey::optim
