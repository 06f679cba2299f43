// Uses the installed library as another project would: builds a model from a config file whose classification loss is
// defined here, configured by a message through `custom`, and runs one loss.
#include <ATen/ATen.h>
#include <google/protobuf/wrappers.pb.h>
#include <osprey/config/pipeline.h>
#include <osprey/losses/builder.h>
#include <osprey/losses/classification_loss.h>
#include <osprey/models/builder.h>

#include <cstdio>

namespace {

/// |sigmoid(logit) - target|, times a factor: the factor comes from a google.protobuf.FloatValue.
class AbsoluteLoss final : public osprey::losses::ClassificationLoss {
 public:
  explicit AbsoluteLoss(double factor) : factor_(factor) {}

 protected:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    return factor_ * (at::sigmoid(logits) - targets).abs() * weights;
  }

 private:
  double factor_;
};

std::unique_ptr<osprey::losses::ClassificationLoss> make(
    const osprey::config::ConfigNode<google::protobuf::FloatValue>& config) {
  return std::make_unique<AbsoluteLoss>(config->value());
}
using osprey::losses::ClassificationLoss;
OSPREY_REGISTER(ClassificationLoss, &make);

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto pipeline = osprey::config::load_pipeline(argv[1]);
  auto config = *pipeline.message;
  auto& loss_config = *config.mutable_model()->mutable_ssd()->mutable_loss();
  google::protobuf::FloatValue factor;
  factor.set_value(2);
  loss_config.mutable_classification_loss()->mutable_custom()->PackFrom(factor);
  const auto model = osprey::models::build_model(config);
  const auto loss = ClassificationLoss::Registry::instance().build(
      osprey::config::ConfigNode<osprey::proto::ClassificationLoss>(loss_config.classification_loss()),
      "classification_loss");
  const double value = (*loss)(at::zeros({1, 1, 1}), at::ones({1, 1, 1}), at::ones({1, 1, 1})).item<double>();
  std::printf("%lld classes, loss %g\n", static_cast<long long>(model->num_classes()), value);
  return value == 1 ? 0 : 1;
}
