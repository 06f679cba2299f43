#include "optim/rate_checks.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

struct ExponentialDecay {
  float initial = 0, factor = 1, burnin = 0, minimum = 0;
  int64_t decay_steps = 1, burnin_steps = 0;
  bool staircase = true;
};

/// max(minimum, burnin) for burnin_steps, then max(minimum, initial * factor^((step - burnin_steps) / decay_steps)).
class ExponentialDecayLearningRate final : public LearningRate {
 public:
  explicit ExponentialDecayLearningRate(const ExponentialDecay& options) : o_(options) {}

  double at(int64_t step) const override {
    if (step < o_.burnin_steps) return std::max(o_.burnin, o_.minimum);
    float periods = static_cast<float>(step - o_.burnin_steps) / static_cast<float>(o_.decay_steps);
    if (o_.staircase) periods = std::floor(periods);
    return std::max(o_.initial * std::pow(o_.factor, periods), o_.minimum);
  }

 private:
  ExponentialDecay o_;
};

std::unique_ptr<LearningRate> make_exponential_decay_learning_rate(
    const config::ConfigNode<proto::ExponentialDecayLearningRate>& cfg) {
  ExponentialDecay options;
  options.initial = checked_rate(cfg, "initial_learning_rate", cfg->initial_learning_rate());
  options.burnin = checked_rate(cfg, "burnin_learning_rate", cfg->burnin_learning_rate());
  options.minimum = checked_rate(cfg, "min_learning_rate", cfg->min_learning_rate());
  options.factor = checked_rate(cfg, "decay_factor", cfg->decay_factor());
  if (cfg->decay_steps() == 0) cfg.fail("decay_steps", "must be > 0, got 0");
  options.decay_steps = cfg->decay_steps();
  options.burnin_steps = cfg->burnin_steps();
  options.staircase = cfg->staircase();
  if (options.burnin == 0) options.burnin = options.initial;  // zero means: the initial rate from the start
  return std::make_unique<ExponentialDecayLearningRate>(options);
}
OSPREY_REGISTER(LearningRate, &make_exponential_decay_learning_rate);

}  // namespace
}  // namespace osprey::optim
