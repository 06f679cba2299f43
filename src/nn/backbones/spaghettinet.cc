// SpaghettiNet-EdgeTPU: networks found by a search over nodes and the edges between them, the detector's pyramid
// included. source  TensorFlow Object Detection API, model zoo of TF1: SpaghettiNet-EdgeTPU S, M and L
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>

#include "osprey/nn/backbone.h"
#include "osprey/nn/fake_quantize.h"
#include "osprey/nn/inverted_residual.h"

namespace osprey::nn {
namespace {

struct NodeLayer {
  enum class Kind {
    kExpansion,  ///< expansion, depthwise, projection: the inverted bottleneck
    kGrouped,    ///< a full convolution of each group of channels, projection
    kSeparable,  ///< depthwise without batch norm, 1x1
  };
  Kind kind;
  int64_t kernel;
  int64_t expansion = 0, groups = 0;
  int64_t stride = 1;
};

/// What the tables below are made of.
NodeLayer inverted(int64_t expansion, int64_t kernel = 3) { return {NodeLayer::Kind::kExpansion, kernel, expansion}; }
NodeLayer grouped(int64_t expansion, int64_t groups = 4) { return {NodeLayer::Kind::kGrouped, 3, expansion, groups}; }
NodeLayer separable(int64_t kernel = 3) { return {NodeLayer::Kind::kSeparable, kernel}; }
NodeLayer halved(NodeLayer layer) {
  layer.stride = 2;
  return layer;
}

/// Layers that follow each other, each but the first with a shortcut. A node with one input takes its map; one with
/// several the sum of all, each brought to its level and depth.
struct Node {
  std::string name;
  std::vector<std::string> inputs;
  int64_t level;  ///< maps of side / 2^level
  int64_t depth;
  std::vector<NodeLayer> layers;
};

constexpr int64_t kStemDepth = 24, kStemKernel = 5, kStemLevel = 1;
const std::string kStem = "s0";

std::vector<Node> nodes_of_s() {
  return {{"n0", {kStem}, 2, 48, {halved(grouped(8, 3))}},
          {"n1", {"n0"}, 3, 64, {halved(grouped(4)), grouped(4), grouped(4)}},
          {"n2", {"n1"}, 4, 72, {halved(inverted(8)), grouped(8), inverted(8), inverted(4)}},
          {"n3", {"n2"}, 5, 88, {halved(inverted(8)), inverted(8), inverted(4), inverted(4)}},
          {"n4", {"n3"}, 6, 88, {halved(inverted(8)), separable(5), separable(5), separable(5)}},
          {"n5", {"n4"}, 7, 88, {halved(separable(5)), separable()}},
          {"c0n0", {"n3", "n4"}, 5, 144, {inverted(4), inverted(4), inverted(4), inverted(4)}},
          {"c0n1", {"n2", "c0n0"}, 4, 120, {inverted(8), inverted(4), inverted(4), inverted(4)}},
          {"c0n2", {"c0n1", "c0n0"}, 5, 168, {inverted(4)}},
          {"c0n3", {"n5", "c0n0"}, 6, 136, {inverted(4), separable()}},
          {"c0n4", {"n5", "c0n0"}, 7, 136, {inverted(4)}},
          {"c0n5", {"c0n4"}, 8, 64, {separable(), separable()}}};
}

std::vector<Node> nodes_of_m() {
  return {{"n0", {kStem}, 2, 48, {halved(grouped(8, 3))}},
          {"n1", {"n0"}, 3, 64, {halved(grouped(8)), grouped(4), grouped(4), grouped(4)}},
          {"n2", {"n1"}, 4, 72, {halved(inverted(8)), grouped(8), inverted(8), inverted(8)}},
          {"n3", {"n2"}, 5, 96, {halved(inverted(8)), inverted(8), inverted(8), inverted(4)}},
          {"n4", {"n3"}, 6, 104, {halved(inverted(8)), inverted(4), separable(5), inverted(4)}},
          {"n5", {"n4"}, 7, 56, {halved(separable(5)), separable()}},
          {"c0n0", {"n3", "n4"}, 5, 152, {inverted(8), inverted(4), inverted(4), inverted(4)}},
          {"c0n1", {"n2", "c0n0"}, 4, 120, {inverted(8), inverted(4), inverted(4), inverted(4)}},
          {"c0n2", {"c0n1", "c0n0"}, 5, 168, {inverted(4), separable()}},
          {"c0n3", {"n5", "c0n0"}, 6, 136, {separable(), separable(), separable()}},
          {"c0n4", {"n5", "c0n0"}, 7, 136, {inverted(4), separable(5)}},
          {"c0n5", {"c0n4"}, 8, 64, {separable(), separable()}}};
}

std::vector<Node> nodes_of_l() {
  return {{"n0", {kStem}, 2, 48, {halved(grouped(8, 3))}},
          {"n1", {"n0"}, 3, 64, {halved(grouped(8)), grouped(8), grouped(8), grouped(4)}},
          {"n2", {"n1"}, 4, 80, {halved(inverted(8)), inverted(8), inverted(8), inverted(4)}},
          {"n3", {"n2"}, 5, 104, {halved(inverted(8)), inverted(8), inverted(8), inverted(8)}},
          {"n4", {"n3"}, 6, 88, {halved(inverted(8)), inverted(4, 5), inverted(4), inverted(8)}},
          {"n5", {"n4"}, 7, 56, {halved(inverted(4, 5)), separable(5)}},
          {"c0n0", {"n3", "n4"}, 5, 160, {inverted(8), inverted(4), inverted(4), inverted(4)}},
          {"c0n1", {"n2", "c0n0"}, 4, 120, {inverted(8), inverted(4), inverted(4), inverted(8)}},
          {"c0n2", {"c0n1", "c0n0"}, 5, 168, {inverted(4), inverted(4), inverted(4), inverted(4)}},
          {"c0n3", {"n5", "c0n0"}, 6, 112, {inverted(8), inverted(4), separable()}},
          {"c0n4", {"n5", "c0n0"}, 7, 128, {inverted(4), inverted(4)}},
          {"c0n5", {"c0n4"}, 8, 64, {separable(5), separable(5)}}};
}

Hyperparams own_hyperparams(bool freeze_batch_norm) {
  Hyperparams result;
  result.activation = Activation::kRelu6;
  result.regularizer = result.depthwise_regularizer = {Regularizer::Kind::kL2, 0.00001};
  result.initializer = Initializer::truncated_normal(0, 0.03);
  result.batch_norm = BatchNormOptions{.decay = 0.97, .epsilon = 0.001, .scale = true, .train = !freeze_batch_norm};
  return result;
}

Padding padding_of(bool explicit_padding, int64_t stride) {
  return explicit_padding && stride > 1 ? Padding::kFixed : Padding::kSame;
}

/// Full convolutions of the groups of channels, put behind each other and rounded as 8 bits are, and a projection.
class GroupedExpansion final : public torch::nn::Module {
 public:
  GroupedExpansion(int64_t in_depth, int64_t out_depth, const NodeLayer& layer, bool explicit_padding,
                   const Hyperparams& hyperparams)
      : depth_(in_depth / layer.groups), concat_(std::make_shared<FakeQuantize>()) {
    for (int64_t i = 0; i < layer.groups; ++i)
      slices_.push_back(register_module(
          fmt::format("slice_{}", i),
          std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth_,
                                                       .out_depth = depth_ * layer.expansion,
                                                       .kernel = {layer.kernel, layer.kernel},
                                                       .stride = layer.stride,
                                                       .padding = padding_of(explicit_padding, layer.stride)},
                                      hyperparams)));
    register_module("concat", concat_);
    project_ = register_module(
        "projection",
        std::make_shared<ConvBlock>(
            ConvBlockOptions{.in_depth = in_depth * layer.expansion, .out_depth = out_depth, .activate = false},
            hyperparams));
  }

  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> made;
    for (size_t i = 0; i < slices_.size(); ++i)
      made.push_back(slices_[i]->forward(
          x.narrow(1, static_cast<int64_t>(i) * depth_, depth_).contiguous(at::MemoryFormat::ChannelsLast)));
    return project_->forward(concat_->forward(at::cat(made, 1)));
  }

 private:
  int64_t depth_;  // of a group
  std::vector<std::shared_ptr<ConvBlock>> slices_;
  std::shared_ptr<FakeQuantize> concat_;
  std::shared_ptr<ConvBlock> project_;
};

/// A depthwise convolution, with biases and nothing behind it, and one of 1x1.
class Separable final : public torch::nn::Module {
 public:
  Separable(int64_t in_depth, int64_t out_depth, const NodeLayer& layer, bool explicit_padding,
            const Hyperparams& hyperparams)
      : depthwise_(register_module(
            "depthwise",
            std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = in_depth,
                                                         .kernel = {layer.kernel, layer.kernel},
                                                         .stride = layer.stride,
                                                         .padding = padding_of(explicit_padding, layer.stride),
                                                         .depthwise = true,
                                                         .normalize = false,
                                                         .activate = false},
                                        hyperparams))),
        pointwise_(register_module(
            "pointwise",
            std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = in_depth, .out_depth = out_depth}, hyperparams))) {
  }

  at::Tensor forward(const at::Tensor& x) { return pointwise_->forward(depthwise_->forward(x)); }

 private:
  std::shared_ptr<ConvBlock> depthwise_, pointwise_;
};

class SpaghettiNet final : public Backbone {
 public:
  SpaghettiNet(const std::string& name, const std::vector<Node>& nodes, const BackboneOptions& options)
      : name_(name),
        explicit_padding_(options.use_explicit_padding),
        hyperparams_(own_hyperparams(options.freeze_batch_norm)) {
    stem_ =
        add_child(*this, "spaghetti_net/stem_node/stem",
                  std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = 3,
                                                               .out_depth = kStemDepth,
                                                               .kernel = {kStemKernel, kStemKernel},
                                                               .stride = 2,
                                                               .padding = padding_of(options.use_explicit_padding, 2)},
                                              hyperparams_));
    depths_[kStem] = kStemDepth;
    levels_[kStem] = kStemLevel;
    for (const Node& node : nodes) {
      Made made{node, {}, {}};
      const bool sums = node.inputs.size() > 1;
      if (sums)
        for (const std::string& input : node.inputs) made.edges.push_back(edge(input, node));
      int64_t depth = sums ? node.depth : depths_.at(node.inputs[0]);
      for (size_t i = 0; i < node.layers.size(); ++i) {
        made.layers.push_back(
            layer(fmt::format("spaghetti_net/{}_{}", node.name, i), node.layers[i], depth, node.depth, i > 0));
        depth = node.depth;
      }
      depths_[node.name] = node.depth;
      levels_[node.name] = node.level;
      nodes_.push_back(std::move(made));
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context& context) override {
    Endpoints maps, endpoints;
    maps[kStem] = stem_->forward(images);
    for (const Made& node : nodes_) {
      if (endpoints.size() == wanted.size()) break;
      at::Tensor x = node.edges.empty() ? maps.at(node.node.inputs[0]) : sum(node, maps, context);
      for (const Step& layer : node.layers) x = layer(x, context);
      maps[node.node.name] = x;
      if (wanted.count(node.node.name) > 0) endpoints[node.node.name] = x;
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override { return depths_.at(endpoint); }
  std::string scope() const override { return name_; }

 private:
  using Step = std::function<at::Tensor(const at::Tensor&, const Context&)>;
  struct Made {
    Node node;
    std::vector<Step> edges;  ///< of each input; none where there is one
    std::vector<Step> layers;
  };

  Step layer(const std::string& scope, const NodeLayer& layer, int64_t in, int64_t out, bool shortcut) {
    if (layer.kind == NodeLayer::Kind::kExpansion) {
      const InvertedResidualOptions options{.in_depth = in,
                                            .expanded_depth = out * layer.expansion,
                                            .out_depth = out,
                                            .kernel = layer.kernel,
                                            .stride = layer.stride,
                                            .padding = padding_of(explicit_padding_, layer.stride),
                                            .activation = hyperparams_.activation,
                                            .residual = shortcut,
                                            .expand_scope = "expansion",
                                            .project_scope = "projection"};
      const auto block = add_child(*this, scope, std::make_shared<InvertedResidual>(options, hyperparams_));
      return [block](const at::Tensor& x, const Context& context) { return block->forward(x, context); };
    }
    const auto with_shortcut = [shortcut](const auto& block) {
      return [block, shortcut](const at::Tensor& x, const Context&) {
        return shortcut ? block->forward(x) + x : block->forward(x);
      };
    };
    if (layer.kind == NodeLayer::Kind::kGrouped)
      return with_shortcut(
          add_child(*this, scope, std::make_shared<GroupedExpansion>(in, out, layer, explicit_padding_, hyperparams_)));
    return with_shortcut(
        add_child(*this, scope, std::make_shared<Separable>(in, out, layer, explicit_padding_, hyperparams_)));
  }

  /// Brings the map of a node to the level and depth of another; the 1x1 convolution runs on the smaller of both.
  Step edge(const std::string& from, const Node& to) {
    const int64_t steps = to.level - levels_.at(from);
    const char* const scope = steps < 0    ? "1x1_before_upsample"
                              : steps == 0 ? "1x1_no_resampling"
                                           : "1x1_after_downsampling";
    const ConvBlockOptions options{.in_depth = depths_.at(from), .out_depth = to.depth, .activate = false};
    const auto block = add_child(*this, fmt::format("edge_{}_{}/{}", from, to.name, scope),
                                 std::make_shared<ConvBlock>(options, hyperparams_));
    return [this, block, steps](const at::Tensor& x, const Context&) {
      if (steps > 0) return block->forward(pooled(x, int64_t{1} << steps));
      return steps == 0 ? block->forward(x) : upsampled(block->forward(x), int64_t{1} << -steps);
    };
  }

  at::Tensor pooled(const at::Tensor& x, int64_t factor) const {
    if (!explicit_padding_) return max_pool(x, factor + 1, factor, Padding::kSame);
    const int64_t before = factor / 2, after = factor - before;  // zeros, which count
    return max_pool(at::constant_pad_nd(x, {before, after, before, after}), factor + 1, factor, Padding::kValid);
  }

  /// All inputs have the size of what becomes of the finest.
  at::Tensor sum(const Made& node, const Endpoints& maps, const Context& context) const {
    std::vector<at::Tensor> inputs;
    size_t finest = 0;
    for (size_t i = 0; i < node.edges.size(); ++i) {
      inputs.push_back(node.edges[i](maps.at(node.node.inputs[i]), context));
      if (levels_.at(node.node.inputs[i]) < levels_.at(node.node.inputs[finest])) finest = i;
    }
    const int64_t height = inputs[finest].size(2), width = inputs[finest].size(3);
    at::Tensor result;
    for (const at::Tensor& input : inputs) {
      const at::Tensor cut = input.slice(2, 0, height).slice(3, 0, width);
      result = result.defined() ? result + cut : cut;
    }
    return activate(result, hyperparams_.activation);
  }

  std::string name_;
  bool explicit_padding_;
  Hyperparams hyperparams_;
  std::shared_ptr<ConvBlock> stem_;
  std::map<std::string, int64_t> depths_, levels_;
  std::vector<Made> nodes_;
};

std::unique_ptr<Backbone> make_spaghettinet_s(const BackboneOptions& options) {
  return std::make_unique<SpaghettiNet>("spaghettinet_edgetpu_s", nodes_of_s(), options);
}
std::unique_ptr<Backbone> make_spaghettinet_m(const BackboneOptions& options) {
  return std::make_unique<SpaghettiNet>("spaghettinet_edgetpu_m", nodes_of_m(), options);
}
std::unique_ptr<Backbone> make_spaghettinet_l(const BackboneOptions& options) {
  return std::make_unique<SpaghettiNet>("spaghettinet_edgetpu_l", nodes_of_l(), options);
}
OSPREY_REGISTER_TYPE(Backbone, "spaghettinet_edgetpu_s", &make_spaghettinet_s);
OSPREY_REGISTER_TYPE(Backbone, "spaghettinet_edgetpu_m", &make_spaghettinet_m);
OSPREY_REGISTER_TYPE(Backbone, "spaghettinet_edgetpu_l", &make_spaghettinet_l);

}  // namespace
}  // namespace osprey::nn
