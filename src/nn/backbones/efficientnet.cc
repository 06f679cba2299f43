// EfficientNet b0 to b7: one network, scaled in width and depth together.
// Tan and Le, "EfficientNet: Rethinking Model NetworkScaling for Convolutional Neural Networks", ICML 2019, table 1 and
// section 3.3; the factors of b1 to b7 are those of its authors' code.
#include <fmt/format.h>

#include <cmath>

#include "nn/backbones/make_divisible.h"
#include "osprey/nn/backbone.h"
#include "osprey/nn/inverted_residual.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/name_map.h"

namespace osprey::nn {
namespace {

struct Stack {
  int64_t depth, kernel, blocks, expansion, stride;
};
constexpr Stack kStacks[] = {{16, 3, 1, 1, 1},  {24, 3, 2, 6, 2},  {40, 5, 2, 6, 2}, {80, 3, 3, 6, 2},
                             {112, 5, 3, 6, 1}, {192, 5, 4, 6, 2}, {320, 3, 1, 6, 1}};
constexpr double kDropRate = 0.2;  // of the last block of b0, linear in the number of the block
constexpr double kBlocksOfB0 = 16;

struct NetworkScaling {
  double width, depth;
};
constexpr NetworkScaling kNetworkScalings[] = {{1.0, 1.0}, {1.0, 1.1}, {1.1, 1.2}, {1.2, 1.4},
                                               {1.4, 1.8}, {1.6, 2.2}, {1.8, 2.6}, {2.0, 3.1}};

/// Of hyperparams that the config wants instead, the original takes over nothing but the weight of the penalty.
Hyperparams efficientnet_hyperparams(const BackboneOptions& options) {
  Hyperparams result;
  const double weight = options.hyperparams ? options.hyperparams->regularizer.weight : 0.00001;
  result.regularizer = result.bias_regularizer = {Regularizer::Kind::kL2, weight};  // depthwise kernels: none
  result.initializer = Initializer::variance_scaling(2, Initializer::Mode::kFanOut, /*uniform=*/false);
  result.activation = Activation::kSwish;
  result.batch_norm =
      BatchNormOptions{.decay = 0.99, .epsilon = 0.001, .scale = true, .train = !options.freeze_batch_norm};
  return result;
}

/// The classifier's last layers (1x1 convolution, pooling, logits) are not part of it. Endpoints: stack_0/block_0, ...
class EfficientNet final : public Backbone {
 public:
  EfficientNet(size_t version, const BackboneOptions& options) : scope_(scope_of(version)) {
    const NetworkScaling& scaling = kNetworkScalings[version];
    const Hyperparams hyperparams = efficientnet_hyperparams(options);
    const auto scaled = [&](int64_t depth) { return make_divisible(static_cast<double>(depth) * scaling.width, 8, 8); };
    int64_t depth = scaled(32);
    stem_ = register_module(
        "stem", std::make_shared<ConvBlock>(
                    ConvBlockOptions{.in_depth = 3, .out_depth = depth, .kernel = {3, 3}, .stride = 2}, hyperparams));
    int64_t number = 0;
    for (size_t s = 0; s < std::size(kStacks); ++s) {
      const Stack& stack = kStacks[s];
      const auto blocks = static_cast<int64_t>(std::ceil(scaling.depth * static_cast<double>(stack.blocks)));
      for (int64_t b = 0; b < blocks; ++b, ++number) {
        InvertedResidualOptions block{.in_depth = depth,
                                      .expanded_depth = depth * stack.expansion,
                                      .out_depth = scaled(stack.depth),
                                      .kernel = stack.kernel,
                                      .stride = b == 0 ? stack.stride : 1,
                                      .activation = hyperparams.activation,
                                      .drop_rate = kDropRate * static_cast<double>(number) / kBlocksOfB0,
                                      .squeeze_scope = ""};
        block.squeeze_excite = SqueezeExciteOptions{.squeezed_depth = std::max<int64_t>(1, depth / 4),
                                                    .activation = hyperparams.activation,
                                                    .reduce = "se_reduce",
                                                    .expand = "se_expand"};
        const std::string name = fmt::format("stack_{}/block_{}", s, b);
        blocks_.emplace_back(name, add_child(*this, name, std::make_shared<InvertedResidual>(block, hyperparams)));
        depth = scaled(stack.depth);
        if (name == options.last_endpoint) return;
      }
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context& context) override {
    Endpoints endpoints;
    FeatureMap x = stem_->forward(FeatureMap(images));
    for (const auto& [name, block] : blocks_) {
      if (endpoints.size() == wanted.size()) break;
      x = block->forward(x, context);
      if (wanted.count(name) > 0) x = endpoints[name] = x.values();
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (const auto& [name, block] : blocks_)
      if (name == endpoint) return block->out_depth();
    throw std::out_of_range("EfficientNet has no endpoint " + endpoint);
  }

  std::string scope() const override { return scope_; }

  static std::string scope_of(size_t version) { return fmt::format("EfficientNet-B{}", version); }

 private:
  std::string scope_;
  std::shared_ptr<ConvBlock> stem_;
  std::vector<std::pair<std::string, std::shared_ptr<InvertedResidual>>> blocks_;
};

template <size_t kVersion>
std::unique_ptr<Backbone> make_efficientnet(const BackboneOptions& options) {
  return std::make_unique<EfficientNet>(kVersion, options);
}
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b0", &make_efficientnet<0>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b1", &make_efficientnet<1>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b2", &make_efficientnet<2>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b3", &make_efficientnet<3>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b4", &make_efficientnet<4>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b5", &make_efficientnet<5>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b6", &make_efficientnet<6>);
OSPREY_REGISTER_TYPE(Backbone, "efficientnet-b7", &make_efficientnet<7>);

/// stack_0.block_0.project.weights -> stack_0/block_0/project_conv2d/kernel, .BatchNorm.gamma -> project_bn/gamma
std::string keras_name_in_efficientnet(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const auto [layer, last] = split_name(scope);
  return last == "BatchNorm" ? tf_name(layer) + "_bn/" + leaf : tf_name(scope) + "_conv2d/" + keras_leaf(leaf);
}

[[maybe_unused]] const bool named_efficientnet = [] {
  for (size_t version = 0; version < std::size(kNetworkScalings); ++version)
    add_keras_names(fmt::format("FeatureExtractor.{}.", EfficientNet::scope_of(version)), &keras_name_in_efficientnet);
  return true;
}();

}  // namespace
}  // namespace osprey::nn
