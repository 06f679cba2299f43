#include <fmt/format.h>

#include "optim/epsilon.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

struct RmsProp {
  double rho = 0.9, momentum = 0.9, epsilon = 1;
  double rate_decay = 0;  ///< the rate of update t is divided by 1 + rate_decay * t
};

/// s <- rho s + (1 - rho) g^2,  a <- m a + r g / sqrt(s + epsilon),  w <- w - a.
///
/// TF 1: s starts at one, rho is the config's `decay`. TF 2: s starts at zero, rho is 0.9 and `decay` slows the
/// learning rate down instead, which is how the original hands it to Keras; without momentum Keras adds epsilon outside
/// the root.
///
/// source  Tieleman & Hinton, Coursera "Neural Networks for Machine Learning", lecture 6.5, 2012
class RmsPropOptimizer final : public Optimizer {
 public:
  RmsPropOptimizer(NamedTensors parameters, std::unique_ptr<LearningRate> rate, const RmsProp& options,
                   Arithmetic arithmetic)
      : Optimizer(std::move(parameters), std::move(rate),
                  arithmetic == Arithmetic::kTf2 && options.momentum == 0 ? kernels::UpdateRule::kRmsPropEpsilonOutside
                                                                          : kernels::UpdateRule::kRmsProp,
                  arithmetic == Arithmetic::kTf1 ? std::vector<Slot>{{"RMSProp", 1}, {"RMSProp_1"}}
                                                 : std::vector<Slot>{{"rms"}, {"momentum"}}),
        options_(options) {}

 private:
  std::vector<double> numbers(double learning_rate, int64_t step) const override {
    const double rate = learning_rate / (1 + options_.rate_decay * static_cast<double>(step));
    return {options_.rho, options_.momentum, rate, options_.epsilon};
  }

  RmsProp options_;
};

std::unique_ptr<Optimizer> make_rms_prop_optimizer(const config::ConfigNode<proto::RMSPropOptimizer>& cfg,
                                                   NamedTensors parameters, Arithmetic arithmetic) {
  const double momentum = cfg->momentum_optimizer_value(), decay = cfg->decay();
  const bool tf1 = arithmetic == Arithmetic::kTf1;
  if (!(momentum >= 0 && momentum < 1))
    cfg.fail("momentum_optimizer_value", fmt::format("must be in [0, 1), got {}", momentum));
  if (tf1 && !(decay >= 0 && decay <= 1)) cfg.fail("decay", fmt::format("must be in 0..1, got {}", decay));
  if (!(decay >= 0)) cfg.fail("decay", fmt::format("must be >= 0, got {}", decay));
  const RmsProp options{.rho = tf1 ? decay : 0.9,
                        .momentum = momentum,
                        .epsilon = epsilon_of(cfg, arithmetic),
                        .rate_decay = tf1 ? 0 : decay};
  return std::make_unique<RmsPropOptimizer>(std::move(parameters),
                                            build_learning_rate(cfg.child("learning_rate", cfg->learning_rate())),
                                            options, arithmetic);
}
OSPREY_REGISTER(Optimizer, &make_rms_prop_optimizer);

}  // namespace
}  // namespace osprey::optim
