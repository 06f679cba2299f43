#include <fmt/format.h>

#include <cmath>

#include "optim/slots.h"
#include "osprey/kernels/optimizer_update.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

/// m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  w <- w - r sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) +
/// epsilon), with b1 = 0.9, b2 = 0.999 and t counting updates from 1: epsilon is added before the bias correction.
///
/// TF 1 multiplies the powers up in float32 variables that checkpoints hold; TF 2 takes them from the step.
/// source  Kingma & Ba, "Adam", ICLR 2015, the variant at the end of section 2
class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(NamedTensors parameters, std::unique_ptr<LearningRate> rate, double epsilon, Arithmetic arithmetic)
      : Optimizer(std::move(parameters), std::move(rate)),
        epsilon_(epsilon),
        tf1_(arithmetic == Arithmetic::kTf1),
        means_(Optimizer::parameters(), tf1_ ? "Adam" : "m", 0),
        variances_(Optimizer::parameters(), tf1_ ? "Adam_1" : "v", 0),
        beta1_power_(at::full({}, kBeta1, at::kFloat)),
        beta2_power_(at::full({}, kBeta2, at::kFloat)) {}

  NamedTensors state() const override {
    NamedTensors state;
    means_.append_to(state);
    variances_.append_to(state);
    if (tf1_) {
      state.emplace_back("beta1_power", beta1_power_);
      state.emplace_back("beta2_power", beta2_power_);
    }
    return state;
  }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999;

  void apply(const Update& update) override {
    const auto means = means_.at_indices(update.indices), variances = variances_.at_indices(update.indices);
    const double t = static_cast<double>(update.step + 1);
    const double power1 = tf1_ ? beta1_power_.item<float>() : std::pow(kBeta1, t);  // on the CPU: nobody waits
    const double power2 = tf1_ ? beta2_power_.item<float>() : std::pow(kBeta2, t);
    const double rate = update.learning_rate * std::sqrt(1 - power2) / (1 - power1);
    if (kernels::fuses_update(update.values)) {
      kernels::adam_update({update.values, update.gradients, {means, variances}}, {kBeta1, kBeta2, rate, epsilon_});
    } else {
      at::_foreach_mul_(means, kBeta1);
      at::_foreach_add_(means, update.gradients, 1 - kBeta1);
      at::_foreach_mul_(variances, kBeta2);
      at::_foreach_addcmul_(variances, update.gradients, update.gradients, 1 - kBeta2);
      auto roots = at::_foreach_sqrt(variances);
      at::_foreach_add_(roots, epsilon_);
      at::_foreach_addcdiv_(update.values, means, roots, -rate);
    }
    if (tf1_) {
      beta1_power_.mul_(kBeta1);
      beta2_power_.mul_(kBeta2);
    }
  }

  double epsilon_;
  bool tf1_;
  Slots means_, variances_;
  at::Tensor beta1_power_, beta2_power_;
};

std::unique_ptr<Optimizer> make_adam_optimizer(const config::ConfigNode<proto::AdamOptimizer>& cfg,
                                               NamedTensors parameters, Arithmetic arithmetic) {
  const double epsilon = cfg->epsilon();
  if (!(epsilon >= 0)) cfg.fail("epsilon", fmt::format("must be >= 0, got {}", epsilon));
  return std::make_unique<AdamOptimizer>(std::move(parameters),
                                         build_learning_rate(cfg.child("learning_rate", cfg->learning_rate())), epsilon,
                                         arithmetic);
}
OSPREY_REGISTER(Optimizer, &make_adam_optimizer);

}  // namespace
}  // namespace osprey::optim
