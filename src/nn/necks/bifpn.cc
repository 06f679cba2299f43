#include "nn/necks/bifpn.h"

#include <fmt/format.h>

#include "osprey/base/error.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/name_map.h"
#include "osprey/nn/separable_convolution.h"

namespace osprey::nn {
namespace {

/// The map of a node on its way to another: a 1x1 convolution where the depths differ, then resampling.
struct Way {
  size_t from = 0;                    // place of the map in the list of all
  int64_t steps = 0;                  // levels up (coarser) or, below zero, down
  std::shared_ptr<ConvBlock> resize;  // of the depth; may be missing
};

at::Tensor resampled(const at::Tensor& x, int64_t steps) {
  if (steps > 0) return max_pool(x, (int64_t{1} << steps) + 1, int64_t{1} << steps, Padding::kSame);
  if (steps < 0) return upsampled(x, int64_t{1} << -steps);
  return x;
}

struct Node {
  int64_t level = 0;
  std::vector<Way> ways;
  std::shared_ptr<WeightedFusion> fusion;      // where there are several ways
  std::shared_ptr<SeparableConvBlock> smooth;  // likewise
};

class Bifpn final : public Neck {
 public:
  Bifpn(const BifpnOptions& options, const Backbone& backbone, const Hyperparams& hyperparams)
      : options_(options), activation_(hyperparams.activation), hyperparams_(hyperparams) {
    for (size_t i = 0; i < options.endpoints.size(); ++i) {
      const int64_t level = options.min_level + static_cast<int64_t>(i);
      add_map(fmt::format("0_up_lvl_{}", level), level, backbone.depth(options.endpoints[i]));
    }
    for (int64_t level = maps_.back().level + 1; level <= options.max_level; ++level)
      add_node(fmt::format("0_up_lvl_{}", level), level, {maps_.back().name});
    // From here on each node reads its own level as the round before left it, and the node made just before.
    for (int64_t round = 1; round <= options.iterations; ++round) {
      for (int64_t level = options.max_level - 1; level >= options.min_level; --level) {
        const bool finest_again = level == options.min_level && round > 1;  // made on the way down only
        add_node(fmt::format("{}_dn_lvl_{}", round, level), level,
                 {fmt::format("{}_{}_lvl_{}", round - 1, finest_again ? "dn" : "up", level), maps_.back().name});
      }
      for (int64_t level = options.min_level + 1; level <= options.max_level; ++level) {
        std::vector<std::string> inputs = {fmt::format("{}_up_lvl_{}", round - 1, level)};
        if (level < options.max_level) inputs.push_back(fmt::format("{}_dn_lvl_{}", round, level));
        inputs.push_back(maps_.back().name);
        add_node(fmt::format("{}_up_lvl_{}", round, level), level, inputs);
      }
    }
  }

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    std::vector<at::Tensor> maps;
    for (const std::string& name : options_.endpoints) maps.push_back(endpoints.at(name));
    for (const Node& node : nodes_) {
      std::vector<at::Tensor> inputs;
      for (const Way& way : node.ways)
        inputs.push_back(resampled(way.resize ? way.resize->forward(maps[way.from]) : maps[way.from], way.steps));
      maps.push_back(inputs.size() == 1 ? inputs[0] : fused(node, inputs));
    }
    const auto levels = static_cast<ptrdiff_t>(options_.max_level - options_.min_level + 1);
    return {maps.end() - levels, maps.end()};
  }

  std::set<std::string> endpoints() const override { return {options_.endpoints.begin(), options_.endpoints.end()}; }

  std::vector<int64_t> depths() const override {
    return std::vector<int64_t>(static_cast<size_t>(options_.max_level - options_.min_level + 1), options_.depth);
  }

 private:
  struct Map {
    std::string name;
    int64_t level, depth;
  };

  void add_map(const std::string& name, int64_t level, int64_t depth) { maps_.push_back({name, level, depth}); }

  void add_node(const std::string& name, int64_t level, const std::vector<std::string>& inputs) {
    Node node;
    node.level = level;
    const std::string scope = fmt::format("bifpn/node_{:02}/{}", nodes_.size(), name);
    for (const std::string& input : inputs) {
      Way way;
      while (maps_.at(way.from).name != input) ++way.from;
      const Map& map = maps_[way.from];
      way.steps = level - map.level;
      // The maps of the backbone are brought to the common depth even where they have it.
      if (way.from < options_.endpoints.size())
        way.resize = add_child(
            *this, fmt::format("{}/input_{}/1x1_pre_sample", scope, input),
            std::make_shared<ConvBlock>(
                ConvBlockOptions{.in_depth = map.depth, .out_depth = options_.depth, .activate = false}, hyperparams_));
      node.ways.push_back(way);
    }
    if (inputs.size() > 1) {
      node.fusion = std::make_shared<WeightedFusion>(options_.method, static_cast<int64_t>(inputs.size()));
      add_child(*this, scope + "/combine", node.fusion);
      node.smooth = add_child(
          *this, scope + "/post_combine",
          std::make_shared<SeparableConvBlock>(
              SeparableConvBlockOptions{.in_depth = options_.depth, .out_depth = options_.depth, .activate = false},
              hyperparams_));
    }
    nodes_.push_back(std::move(node));
    add_map(name, level, options_.depth);
  }

  at::Tensor fused(const Node& node, const std::vector<at::Tensor>& inputs) const {
    for (const at::Tensor& input : inputs)
      if (input.sizes() != inputs[0].sizes())
        throw ConfigError(fmt::format(
            "the image size does not suit the feature pyramid: level {} is {}x{}, but {}x{} when resampled from its "
            "neighbour; use a size that is a multiple of {}, or pad_to_multiple",
            node.level, inputs[0].size(2), inputs[0].size(3), input.size(2), input.size(3),
            int64_t{1} << options_.max_level));
    return node.smooth->forward(activate(node.fusion->forward(inputs), activation_));
  }

  BifpnOptions options_;
  Activation activation_;
  Hyperparams hyperparams_;
  std::vector<Map> maps_;  // the endpoints, then one of each node
  std::vector<Node> nodes_;
};

}  // namespace

std::unique_ptr<Neck> make_bifpn_neck(const BifpnOptions& options, const Backbone& backbone,
                                      const Hyperparams& hyperparams) {
  return std::make_unique<Bifpn>(options, backbone, hyperparams);
}

std::string bifpn_keras_name(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const auto [block, last] = split_name(scope);
  if (last == "combine") return tf_name(scope) + "/bifpn_combine_weights";
  if (last == "BatchNorm") return tf_name(block) + "/batchnorm/" + leaf;
  return tf_name(scope) + (last == "post_combine" ? "/separable_conv/" : "/conv/") + keras_leaf(leaf);
}

}  // namespace osprey::nn
