// MobileNet v1: depthwise separable convolutions all the way down.
// Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications", 2017, table 1.
#include <fmt/format.h>

#include "nn/backbones/unused_layers.h"
#include "osprey/nn/backbone.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

struct MobilenetV1Stage {
  int64_t stride, depth;
  bool redefined = false;  ///< the depth is not that of the paper
};
using MobilenetV1Stages = std::vector<MobilenetV1Stage>;

/// The first is a plain 3x3 convolution, the others a depthwise 3x3 and a 1x1 convolution.
MobilenetV1Stages mobilenet_v1_stages(const MobilenetV1Stage& stage_12, const MobilenetV1Stage& stage_13) {
  return {{2, 32},  {1, 64},  {2, 128}, {1, 128}, {2, 256}, {1, 256}, {2, 512},
          {1, 512}, {1, 512}, {1, 512}, {1, 512}, {1, 512}, stage_12, stage_13};
}

/// In Keras a multiplier acts twice: the network applies it, and the layers that the original hands to it once more.
int64_t depth_of(const MobilenetV1Stage& stage, const BackboneOptions& options) {
  const auto multiplied = [&](int64_t depth) {
    return static_cast<int64_t>(static_cast<double>(depth) * options.depth_multiplier);
  };
  const int64_t given = options.keras && !stage.redefined ? multiplied(stage.depth) : stage.depth;
  return std::max(multiplied(given), options.min_depth);
}

/// What the original uses unless the config overrides it.
Hyperparams mobilenet_v1_hyperparams(const BackboneOptions& options) {
  Hyperparams result;
  result.regularizer = {Regularizer::Kind::kL2, 0.00004};
  if (options.regularize_depthwise) result.depthwise_regularizer = result.regularizer;
  result.initializer = Initializer::truncated_normal(0, 0.09);
  result.batch_norm =
      BatchNormOptions{.decay = 0.9997, .epsilon = 0.001, .scale = true, .train = !options.freeze_batch_norm};
  return result;
}

class MobilenetV1 final : public Backbone {
 public:
  MobilenetV1(const MobilenetV1Stages& stages, const BackboneOptions& options) {
    Hyperparams hyperparams = options.hyperparams ? *options.hyperparams : mobilenet_v1_hyperparams(options);
    hyperparams.use_bias = !options.keras;
    hyperparams.quantization = behind_activations(options.quantization);
    unused_.emplace(hyperparams, options);
    const Padding padding = options.use_explicit_padding ? Padding::kFixed : Padding::kSame;
    int64_t depth = 3;
    const auto add = [&](const std::string& name, ConvBlockOptions block) {
      block.in_depth = depth;
      block.padding = block.kernel[0] > 1 ? padding : Padding::kSame;
      blocks_.emplace_back(name, register_module(name, std::make_shared<ConvBlock>(block, hyperparams)));
      depth = blocks_.back().second->out_depth();
    };
    for (size_t i = 0; i < stages.size(); ++i) {
      const MobilenetV1Stage& stage = stages[i];
      const int64_t out = depth_of(stage, options);
      if (i == 0) {
        add("Conv2d_0", {.out_depth = out, .kernel = {3, 3}, .stride = stage.stride});
      } else {
        add(fmt::format("Conv2d_{}_depthwise", i), {.kernel = {3, 3}, .stride = stage.stride, .depthwise = true});
        add(fmt::format("Conv2d_{}_pointwise", i), {.out_depth = out});
      }
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context&) override {
    Endpoints endpoints;
    FeatureMap x = images;
    auto pass = unused_->pass(is_training());
    for (const auto& [name, block] : blocks_) {
      if (!pass.runs(endpoints.size() < wanted.size())) break;
      x = block->forward(x);
      if (wanted.count(name) > 0) x = endpoints[name] = x.values();
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (const auto& [name, block] : blocks_)
      if (name == endpoint) return block->out_depth();
    throw std::out_of_range("MobileNet v1 has no endpoint " + endpoint);
  }

  std::string scope() const override { return "MobilenetV1"; }

 private:
  std::vector<std::pair<std::string, std::shared_ptr<ConvBlock>>> blocks_;
  std::optional<UnusedLayers> unused_;
};

std::unique_ptr<Backbone> make_mobilenet_v1(const BackboneOptions& options) {
  return std::make_unique<MobilenetV1>(mobilenet_v1_stages({2, 1024}, {1, 1024}), options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v1", &make_mobilenet_v1);

/// Below a feature pyramid of separable convolutions, whose projection would reduce the last map at once.
std::unique_ptr<Backbone> make_slender_mobilenet_v1(const BackboneOptions& options) {
  return std::make_unique<MobilenetV1>(mobilenet_v1_stages({2, 512, true}, {1, 256, true}), options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v1_fpn", &make_slender_mobilenet_v1);

/// Conv2d_0 is conv1, Conv2d_3_pointwise is conv_pw_3, and a batch norm has the name of its convolution and _bn.
std::string keras_name_in_mobilenet_v1(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  std::string layer = scope.substr(0, scope.find('.'));
  const bool normalises = scope.size() > layer.size();
  if (layer == "Conv2d_0") {
    layer = "conv1";
  } else {
    const size_t end = layer.rfind('_');  // Conv2d_<number>_<kind>
    layer = fmt::format("conv_{}_{}", layer.substr(end) == "_depthwise" ? "dw" : "pw", layer.substr(7, end - 7));
  }
  return layer + (normalises ? "_bn/" : "/") + keras_leaf(leaf);
}
[[maybe_unused]] const bool named_mobilenet_v1 =
    add_keras_names("FeatureExtractor.MobilenetV1.", &keras_name_in_mobilenet_v1);

}  // namespace
}  // namespace osprey::nn
