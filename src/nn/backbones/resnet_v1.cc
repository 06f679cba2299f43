// ResNet v1: residual units that activate after the sum.
// He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1; 200 units as in He et al., "Identity
// Mappings in Deep Residual Networks", ECCV 2016.
//
// Where a block halves its map: its last unit runs at the full side, an endpoint is the map before halving, and every
// second value goes on to the next block. In Keras the first unit of the next block halves, in its first convolution,
// which for a 1x1 convolution comes to the same; later networks do it in the 3x3 convolution: the same variables, other
// numbers.
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/no_second_derivative.h"
#include "kernels/same_again.h"
#include "nn/backbones/unused_layers.h"
#include "osprey/nn/backbone.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

struct Version {
  int depth;  ///< of the network, in layers
  std::array<int64_t, 4> units;
  bool bottleneck;
};
constexpr Version kVersions[] = {{18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
                                 {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true}, {200, {3, 24, 36, 3}, true}};

/// What the original uses unless the config overrides it.
Hyperparams resnet_v1_hyperparams(const BackboneOptions& options) {
  Hyperparams result;
  result.regularizer = {Regularizer::Kind::kL2, options.keras ? 0.0002 : 0.0001};  // Keras's own has no half in it
  result.initializer = Initializer::variance_scaling(options.keras ? 1 : 2, Initializer::Mode::kFanIn, false);
  result.activation = Activation::kRelu;
  result.batch_norm = BatchNormOptions{.train = !options.freeze_batch_norm};
  return result;
}

/// Hyperparams of a config decide about everything but the constants of batch norm, which the original's network sets
/// closer to the layers than its configs; in Keras, or where that is asked for, they decide about those, too.
Hyperparams hyperparams_of(const BackboneOptions& options) {
  Hyperparams result = options.hyperparams ? *options.hyperparams : resnet_v1_hyperparams(options);
  result.use_bias = !options.keras;
  if (result.batch_norm && !options.obeys_hyperparams()) {
    result.batch_norm->decay = 0.997;
    result.batch_norm->epsilon = 1e-5;
    result.batch_norm->scale = true;
  }
  return result;
}

at::Tensor at_every_second(const at::Tensor& x) { return x.slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2); }

/// Every second place of a map along both sides, for two ways that read it. (The gradients of both are added where the
/// map's has them, in one pass over it; two slices take two.)
class EverySecond : public torch::autograd::Function<EverySecond> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["sizes"] = x.sizes();
    context->set_materialize_grads(false);
    const at::Tensor result = at_every_second(x).contiguous(at::MemoryFormat::ChannelsLast);
    return {result, kernels::same_again(result)};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    kernels::refuse_second_derivative("every_second");
    if (!gradients[0].defined()) std::swap(gradients[0], gradients[1]);
    if (!gradients[0].defined()) return {at::Tensor()};
    at::Tensor result =
        at::empty(context->saved_data["sizes"].toIntVector(), gradients[0].options(), at::MemoryFormat::ChannelsLast)
            .zero_();
    at::Tensor there = at_every_second(result);
    gradients[1].defined() ? at::add_out(there, gradients[0], gradients[1]) : there.copy_(gradients[0]);
    return {result};
  }
};

ForkedMap every_second(const at::Tensor& x) {
  if (x.requires_grad()) {
    const torch::autograd::variable_list halved = EverySecond::apply(x);
    return {halved[0], halved[1]};
  }
  const at::Tensor halved = at_every_second(x).contiguous(at::MemoryFormat::ChannelsLast);
  return {halved, halved};
}

struct UnitOptions {
  int64_t in_depth, out_depth;
  int64_t inner_depth;  ///< of the 3x3 convolution
  bool bottleneck;
  int64_t stride;  ///< of the shortcut and one convolution
  bool stride_in_3x3;
  bool zero_init;         ///< starts as an identity
  Activation activation;  ///< behind the sum
};

/// Two 3x3 convolutions, or a 3x3 between two 1x1 convolutions, around which the input is added.
class Unit final : public torch::nn::Module {
 public:
  Unit(const UnitOptions& options, const Hyperparams& hyperparams) : activation_(options.activation) {
    Hyperparams last = hyperparams;
    if (options.zero_init && last.batch_norm) last.batch_norm->gamma_init = 0;
    const auto add = [&](const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                         bool activate, const Hyperparams& of_block) {
      return register_module(
          name, std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = in,
                                                             .out_depth = out,
                                                             .kernel = {kernel, kernel},
                                                             .stride = stride,
                                                             .padding = stride > 1 ? Padding::kFixed : Padding::kSame,
                                                             .activate = activate},
                                            of_block));
    };
    const int64_t in = options.in_depth, inner = options.inner_depth, out = options.out_depth;
    if (in != out || options.stride > 1) shortcut_ = add("shortcut", in, out, 1, options.stride, false, hyperparams);
    if (options.bottleneck) {
      const int64_t first = options.stride_in_3x3 ? 1 : options.stride;
      blocks_ = {add("conv1", in, inner, 1, first, true, hyperparams),
                 add("conv2", inner, inner, 3, options.stride / first, true, hyperparams),
                 add("conv3", inner, out, 1, 1, false, last)};
    } else {
      blocks_ = {add("conv1", in, inner, 3, options.stride, true, hyperparams),
                 add("conv2", inner, out, 3, 1, false, last)};
    }
  }

  /// next  reads the result; null: something else does
  ForkedMap forward(const ForkedMap& x, const Unit* next) {
    FeatureMap y = x.read ? *x.read : blocks_.front()->forward(FeatureMap(x.map));
    for (size_t i = 1; i + 1 < blocks_.size(); ++i) y = blocks_[i]->forward(y);
    return blocks_.back()->forward_plus(y, shortcut_ ? shortcut_->forward(x.again) : x.again, activation_,
                                        next == nullptr ? nullptr : next->blocks_.front().get());
  }

 private:
  Activation activation_;
  std::shared_ptr<ConvBlock> shortcut_;
  std::vector<std::shared_ptr<ConvBlock>> blocks_;
};

class ResnetV1 final : public Backbone {
 public:
  ResnetV1(const Version& version, const BackboneOptions& options)
      : scope_(fmt::format("resnet_v1_{}", version.depth)), stride_place_(stride_place(options)) {
    const Hyperparams hyperparams = hyperparams_of(options);
    unused_.emplace(hyperparams, options);
    const bool keras = options.keras;
    const auto scaled = [&](int64_t depth) {
      return std::max(static_cast<int64_t>(static_cast<double>(depth) * options.depth_multiplier), options.min_depth);
    };
    const int64_t root = keras ? scaled(64) : 64;  // which slim never scales
    root_ = register_module(
        "conv1", std::make_shared<ConvBlock>(
                     ConvBlockOptions{
                         .in_depth = 3, .out_depth = root, .kernel = {7, 7}, .stride = 2, .padding = Padding::kFixed},
                     hyperparams));
    int64_t depth = root;
    for (size_t b = 0; b < version.units.size(); ++b) {
      const std::string name = fmt::format("block{}", b + 1);
      const int64_t inner = scaled(int64_t{64} << b);
      // slim multiplies the inner depth that is already scaled, Keras scales the product
      const int64_t wide = keras ? scaled(int64_t{256} << b) : inner * 4;
      Block block{name, version.bottleneck ? wide : inner, {}};
      for (int64_t u = 0; u < version.units[b]; ++u) {
        block.units.push_back(add_child(
            *this, fmt::format("{}/unit_{}/{}", name, u + 1, version.bottleneck ? "bottleneck_v1" : "basic_v1"),
            std::make_shared<Unit>(
                UnitOptions{.in_depth = depth,
                            .out_depth = block.depth,
                            .inner_depth = inner,
                            .bottleneck = version.bottleneck,
                            .stride = stride_place_ != StridePlace::kBlockEnd && b > 0 && u == 0 ? 2 : 1,
                            .stride_in_3x3 = stride_place_ == StridePlace::kFirst3x3Convolution,
                            .zero_init = options.residual.zero_init_last_batch_norm,
                            .activation = keras ? hyperparams.activation : Activation::kRelu},
                hyperparams)));
        depth = block.depth;
      }
      blocks_.push_back(std::move(block));
      if (name == options.last_endpoint) break;
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context&) override {
    Endpoints endpoints;
    const at::Tensor root = max_pool(root_->forward(images), 3, 2, Padding::kSame);
    ForkedMap x{root, root};
    auto pass = unused_->pass(is_training());
    for (size_t b = 0; b < blocks_.size() && pass.runs(endpoints.size() < wanted.size()); ++b) {
      if (b > 0 && stride_place_ == StridePlace::kBlockEnd) x = every_second(x.again);
      const auto& units = blocks_[b].units;
      for (size_t u = 0; u < units.size(); ++u)
        x = units[u]->forward(x, u + 1 < units.size() ? units[u + 1].get() : nullptr);
      if (wanted.count(blocks_[b].name) > 0) endpoints[blocks_[b].name] = x.map;
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (const Block& block : blocks_)
      if (block.name == endpoint) return block.depth;
    throw std::out_of_range(scope_ + " has no endpoint " + endpoint);
  }

  std::string scope() const override { return scope_; }

 private:
  using StridePlace = ResidualOptions::StridePlace;
  struct Block {
    std::string name;
    int64_t depth;
    std::vector<std::shared_ptr<Unit>> units;
  };
  static StridePlace stride_place(const BackboneOptions& options) {
    if (options.residual.stride_place != StridePlace::kAuto) return options.residual.stride_place;
    return options.keras ? StridePlace::kFirstConvolution : StridePlace::kBlockEnd;
  }
  std::string scope_;
  StridePlace stride_place_;
  std::shared_ptr<ConvBlock> root_;
  std::vector<Block> blocks_;
  std::optional<UnusedLayers> unused_;
};

template <size_t kIndex>
std::unique_ptr<Backbone> make_resnet_v1(const BackboneOptions& options) {
  return std::make_unique<ResnetV1>(kVersions[kIndex], options);
}
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_18", &make_resnet_v1<0>);
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_34", &make_resnet_v1<1>);
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_50", &make_resnet_v1<2>);
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_101", &make_resnet_v1<3>);
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_152", &make_resnet_v1<4>);
OSPREY_REGISTER_TYPE(Backbone, "resnet_v1_200", &make_resnet_v1<5>);

/// block2.unit_1.bottleneck_v1.conv3.weights is conv3_block1_3_conv/kernel; the shortcut is convolution 0.
std::string keras_name_in_resnet_v1(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const bool normalises = scope.ends_with(".BatchNorm");
  const std::string layer = normalises ? scope.substr(0, scope.rfind('.')) : scope;
  const std::string end = (normalises ? "_bn/" : "_conv/") + keras_leaf(leaf);
  if (layer == "conv1") return "conv1" + end;
  int block = 0, unit = 0, convolution = 0;
  if (std::sscanf(layer.c_str(), "block%d.unit_%d.bottleneck_v1.conv%d", &block, &unit, &convolution) < 2)
    throw std::out_of_range("no Keras name is known for " + name);
  return fmt::format("conv{}_block{}_{}{}", block + 1, unit, convolution, end);
}

bool add_resnet_names() {
  for (const int depth : {50, 101, 152})
    add_keras_names(fmt::format("FeatureExtractor.resnet_v1_{}.", depth), &keras_name_in_resnet_v1);
  return true;
}
[[maybe_unused]] const bool named_resnet_v1 = add_resnet_names();

}  // namespace
}  // namespace osprey::nn
