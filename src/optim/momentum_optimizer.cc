#include <fmt/format.h>

#include "optim/slots.h"
#include "osprey/kernels/optimizer_update.h"
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
      : Optimizer(std::move(parameters), std::move(rate)),
        momentum_(momentum),
        rate_inside_(arithmetic == Arithmetic::kTf2),
        // Different names, since one cannot stand in for the other.
        accumulators_(Optimizer::parameters(), rate_inside_ ? "momentum" : "Momentum", 0) {}

  NamedTensors state() const override {
    NamedTensors state;
    accumulators_.append_to(state);
    return state;
  }

 private:
  void apply(const Update& update) override {
    const auto accumulators = accumulators_.at_indices(update.indices);
    const double gradient_factor = rate_inside_ ? -update.learning_rate : 1.0,
                 value_factor = rate_inside_ ? 1.0 : -update.learning_rate;
    if (kernels::fuses_update(update.values)) {
      kernels::momentum_update({update.values, update.gradients, {accumulators}}, momentum_, gradient_factor,
                               value_factor);
      return;
    }
    at::_foreach_mul_(accumulators, momentum_);
    at::_foreach_add_(accumulators, update.gradients, gradient_factor);
    at::_foreach_add_(update.values, accumulators, value_factor);
  }

  double momentum_;
  bool rate_inside_;
  Slots accumulators_;
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
