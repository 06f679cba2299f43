#include <fmt/format.h>

#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

/// Stochastic gradient descent with momentum m and rate r on gradient g.
///   TF 1: a <- m a + g,    w <- w - r a      (the rate stays outside, a change of it acts at once)
///   TF 2: a <- m a - r g,  w <- w + a
class MomentumOptimizer final : public Optimizer {
 public:
  MomentumOptimizer(NamedTensors parameters, std::unique_ptr<LearningRate> rate, double momentum, Arithmetic arithmetic)
      : Optimizer(std::move(parameters), std::move(rate), kernels::UpdateRule::kMomentum,
                  // Different names, since one cannot stand in for the other.
                  {{arithmetic == Arithmetic::kTf2 ? "momentum" : "Momentum"}}),
        momentum_(momentum),
        rate_inside_(arithmetic == Arithmetic::kTf2) {}

 private:
  std::vector<double> numbers(double learning_rate, int64_t) const override {
    return {momentum_, rate_inside_ ? -learning_rate : 1, rate_inside_ ? 1 : -learning_rate};
  }

  double momentum_;
  bool rate_inside_;
};

std::unique_ptr<Optimizer> make_momentum_optimizer(const config::ConfigNode<proto::MomentumOptimizer>& cfg,
                                                   NamedTensors parameters, Arithmetic arithmetic) {
  const double momentum = cfg->momentum_optimizer_value();
  if (!(momentum >= 0 && momentum < 1))
    cfg.fail("momentum_optimizer_value", fmt::format("must be in [0, 1), got {}", momentum));
  return std::make_unique<MomentumOptimizer>(std::move(parameters),
                                             build_learning_rate(cfg.child("learning_rate", cfg->learning_rate())),
                                             momentum, arithmetic);
}
OSPREY_REGISTER(Optimizer, &make_momentum_optimizer);

}  // namespace
}  // namespace osprey::optim
