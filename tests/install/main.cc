// Uses the installed library as another project would: builds a detector from a config file whose backbone, feature
// extractor and classification loss are defined here, each configured by a message through `custom`.
#include <ATen/ATen.h>
#include <google/protobuf/wrappers.pb.h>
#include <osprey/config/pipeline.h>
#include <osprey/losses/builder.h>
#include <osprey/losses/classification_loss.h>
#include <osprey/models/builder.h>
#include <osprey/models/summary.h>
#include <osprey/nn/convolution.h>
#include <osprey/nn/feature_extractor.h>

#include <cstdio>

namespace {

namespace config = osprey::config;
namespace nn = osprey::nn;

/// One convolution of stride 16.
class Patches final : public nn::Backbone {
 public:
  explicit Patches(int64_t depth) : depth_(depth) {
    patches_ = register_module(
        "patches", std::make_shared<nn::ConvBlock>(
                       nn::ConvBlockOptions{.in_depth = 3, .out_depth = depth, .kernel = {16, 16}, .stride = 16},
                       nn::Hyperparams{}));
  }
  nn::Endpoints forward(const at::Tensor& images, const std::set<std::string>&, const nn::Context&) override {
    return {{"patches", patches_->forward(images)}};
  }
  int64_t depth(const std::string&) const override { return depth_; }
  std::string scope() const override { return "Patches"; }

 private:
  int64_t depth_;
  std::shared_ptr<nn::ConvBlock> patches_;
};

/// Patches and two coarser maps; a google.protobuf.Int32Value is their depth.
std::unique_ptr<nn::FeatureExtractor> make_extractor(const config::ConfigNode<google::protobuf::Int32Value>& node,
                                                     const nn::FeatureExtractorOptions&) {
  if (node->value() < 1) node.fail("value", "must be >= 1");
  const auto backbone = std::make_shared<Patches>(node->value());
  nn::MultiResolutionOptions maps;
  maps.maps = {{"patches"}, {"", node->value()}, {"", node->value()}};
  return std::make_unique<nn::BackboneFeatureExtractor>(
      backbone, nn::make_multi_resolution_neck(maps, *backbone, nn::Hyperparams{}),
      nn::BackboneFeatureExtractor::Options{});
}
using nn::FeatureExtractor;
OSPREY_REGISTER(FeatureExtractor, &make_extractor);

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

std::unique_ptr<osprey::losses::ClassificationLoss> make_loss(
    const config::ConfigNode<google::protobuf::FloatValue>& node) {
  return std::make_unique<AbsoluteLoss>(node->value());
}
using osprey::losses::ClassificationLoss;
OSPREY_REGISTER(ClassificationLoss, &make_loss);

template <class Wrapper, class Value>
Wrapper wrapped(Value value) {
  Wrapper message;
  message.set_value(value);
  return message;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const config::Pipeline pipeline = config::load_pipeline(argv[1]);
  auto& ssd = *pipeline.message->mutable_model()->mutable_ssd();
  ssd.mutable_feature_extractor()->mutable_custom()->PackFrom(wrapped<google::protobuf::Int32Value>(24));
  auto& loss_config = *ssd.mutable_loss()->mutable_classification_loss();
  loss_config.mutable_custom()->PackFrom(wrapped<google::protobuf::FloatValue>(2));
  const osprey::models::Summary summary = osprey::models::summarize_model(pipeline.root());
  const auto& coarsest = summary.feature_maps.back();
  const auto loss = ClassificationLoss::Registry::instance().build(
      config::ConfigNode<osprey::proto::ClassificationLoss>(ssd.loss().classification_loss()), "classification_loss");
  const double value = (*loss)(at::zeros({1, 1, 1}), at::ones({1, 1, 1}), at::ones({1, 1, 1})).item<double>();
  std::printf("coarsest of %zu maps: %lld x %lld x %lld; loss %g\n", summary.feature_maps.size(),
              static_cast<long long>(coarsest[0]), static_cast<long long>(coarsest[1]),
              static_cast<long long>(coarsest[2]), value);
  return summary.feature_maps.size() == 3 && coarsest == std::array<int64_t, 3>{4, 4, 24} && value == 1 ? 0 : 1;
}
