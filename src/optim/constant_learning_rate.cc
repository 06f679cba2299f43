#include "optim/rate_checks.h"
#include "osprey/optim/learning_rate.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::optim {
namespace {

class ConstantLearningRate final : public LearningRate {
 public:
  explicit ConstantLearningRate(float rate) : rate_(rate) {}
  double at(int64_t) const override { return rate_; }

 private:
  float rate_;
};

std::unique_ptr<LearningRate> make_constant_learning_rate(const config::ConfigNode<proto::ConstantLearningRate>& cfg) {
  return std::make_unique<ConstantLearningRate>(checked_rate(cfg, "learning_rate", cfg->learning_rate()));
}
OSPREY_REGISTER(LearningRate, &make_constant_learning_rate);

}  // namespace
}  // namespace osprey::optim
