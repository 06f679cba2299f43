#include <ATen/ATen.h>

#include <cmath>

#include "optim/epsilon.h"
#include "osprey/optim/builder.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

/// m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  w <- w - r sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) +
/// epsilon), with b1 = 0.9, b2 = 0.999 and t counting updates from 1: epsilon is added before the bias correction.
///
/// TF 1 multiplies the powers up in float32 variables that checkpoints hold, and that a step which is left out leaves
/// alone; TF 2 takes them from the step.
/// source  Kingma & Ba, "Adam", ICLR 2015, the variant at the end of section 2
class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(NamedTensors parameters, std::unique_ptr<LearningRate> rate, double epsilon, Arithmetic arithmetic)
      : Optimizer(
            std::move(parameters), std::move(rate), kernels::UpdateRule::kAdam,
            arithmetic == Arithmetic::kTf1 ? std::vector<Slot>{{"Adam"}, {"Adam_1"}} : std::vector<Slot>{{"m"}, {"v"}}),
        epsilon_(epsilon),
        tf1_(arithmetic == Arithmetic::kTf1) {
    const auto device = this->parameters().empty() ? at::kCPU : this->parameters()[0].second.device();
    beta1_power_ = at::full({}, kBeta1, at::TensorOptions(device).dtype(at::kFloat));
    beta2_power_ = at::full({}, kBeta2, at::TensorOptions(device).dtype(at::kFloat));
  }

  NamedTensors state() const override {
    NamedTensors state = Optimizer::state();
    if (tf1_) {
      state.emplace_back("beta1_power", beta1_power_);
      state.emplace_back("beta2_power", beta2_power_);
    }
    return state;
  }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999;

  std::vector<double> numbers(double learning_rate, int64_t step) const override {
    return {kBeta1, kBeta2, tf1_ ? learning_rate : learning_rate * correction(static_cast<float>(step + 1)), epsilon_};
  }

  void share_update(const at::Tensor& numbers, const at::Tensor& proceed) override {
    if (!tf1_) return;
    numbers[2].mul_((1 - beta2_power_).sqrt() / (1 - beta1_power_));
    const auto raise = [&](const at::Tensor& power, double beta) {
      proceed.defined() ? power.copy_(at::where(proceed, power * beta, power)) : power.mul_(beta);
    };
    raise(beta1_power_, kBeta1);
    raise(beta2_power_, kBeta2);
  }

  /// In float32, as Keras has it: 1 - 0.999f is not the 0.001 that the second moments are gathered with otherwise.
  static float correction(float t) {
    const float beta1_power = std::pow(static_cast<float>(kBeta1), t),
                beta2_power = std::pow(static_cast<float>(kBeta2), t);
    return std::sqrt(1 - beta2_power) / (1 - beta1_power);
  }

  double epsilon_;
  bool tf1_;
  at::Tensor beta1_power_, beta2_power_;
};

std::unique_ptr<Optimizer> make_adam_optimizer(const config::ConfigNode<proto::AdamOptimizer>& cfg,
                                               NamedTensors parameters, Arithmetic arithmetic) {
  return std::make_unique<AdamOptimizer>(std::move(parameters),
                                         build_learning_rate(cfg.child("learning_rate", cfg->learning_rate())),
                                         epsilon_of(cfg, arithmetic), arithmetic);
}
OSPREY_REGISTER(Optimizer, &make_adam_optimizer);

}  // namespace
}  // namespace osprey::optim
