#include <fmt/format.h>

#include "osprey/nn/convolution.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/neck.h"

namespace osprey::nn {
namespace {

class MultiResolutionNeck final : public Neck {
 public:
  MultiResolutionNeck(const MultiResolutionOptions& options, const Backbone& backbone, const Hyperparams& hyperparams) {
    const auto scaled = [&](double depth) {
      return std::max<int64_t>(static_cast<int64_t>(depth * options.depth_multiplier), options.min_depth);
    };
    std::string base;  // the last endpoint taken over names the new maps
    for (size_t i = 0; i < options.maps.size(); ++i) {
      const MultiResolutionOptions::Map& map = options.maps[i];
      Level level;
      if (!map.from.empty()) {
        base = level.endpoint = map.from;
        depths_.push_back(backbone.depth(map.from));
      } else {
        TORCH_CHECK(!depths_.empty(), "the first feature map must come from the backbone");
        build(level, base, i, map, scaled, options, hyperparams);
        depths_.push_back(scaled(static_cast<double>(map.depth)));
      }
      levels_.push_back(std::move(level));
    }
  }

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    std::vector<at::Tensor> maps;
    for (const Level& level : levels_) {
      FeatureMap x = level.endpoint.empty() ? maps.back() : endpoints.at(level.endpoint);
      for (const auto& block : level.blocks) x = block->forward(x);
      maps.push_back(x.values());
    }
    return maps;
  }

  std::set<std::string> endpoints() const override {
    std::set<std::string> result;
    for (const Level& level : levels_)
      if (!level.endpoint.empty()) result.insert(level.endpoint);
    return result;
  }

  std::vector<int64_t> depths() const override { return depths_; }

 private:
  struct Level {
    std::string endpoint;  // of the backbone; empty for a map made here
    std::vector<std::shared_ptr<ConvBlock>> blocks;
  };

  template <class Scaled>
  void build(Level& level, const std::string& base, size_t index, const MultiResolutionOptions::Map& map,
             const Scaled& scaled, const MultiResolutionOptions& options, const Hyperparams& hyperparams) {
    int64_t depth = depths_.back();
    const std::string place = options.keras ? "FeatureMaps/" : "";
    Hyperparams depthwise = hyperparams;
    if (options.keras) {  // the original hands these to arguments that depthwise layers do not look at
      depthwise.initializer = Initializer::variance_scaling(1, Initializer::Mode::kFanAverage, /*uniform=*/true);
      depthwise.depthwise_regularizer = {};
    }
    const auto add = [&](const std::string& scope, ConvBlockOptions block) {
      block.in_depth = depth;
      level.blocks.push_back(add_child(*this, place + scope,
                                       std::make_shared<ConvBlock>(block, block.depthwise ? depthwise : hyperparams)));
      if (!block.depthwise) depth = block.out_depth;
    };
    if (options.insert_1x1_conv) {
      const int64_t half = scaled(static_cast<double>(map.depth) / 2);
      add(fmt::format("{}_1_Conv2d_{}_1x1_{}", base, index, half), {.out_depth = half});
    }
    const int64_t full = scaled(static_cast<double>(map.depth));
    const std::string scope = fmt::format("{}_2_Conv2d_{}_{}x{}_s2_{}", base, index, map.kernel, map.kernel, full);
    ConvBlockOptions halving{.out_depth = full,
                             .kernel = {map.kernel, map.kernel},
                             .stride = 2,
                             .padding = options.use_explicit_padding ? Padding::kFixed : Padding::kSame};
    halving.depthwise = options.use_depthwise;
    add(options.use_depthwise ? scope + "_depthwise" : scope, halving);
    if (options.use_depthwise) add(scope, {.out_depth = full});
  }

  std::vector<Level> levels_;
  std::vector<int64_t> depths_;
};

}  // namespace

std::unique_ptr<Neck> make_multi_resolution_neck(const MultiResolutionOptions& options, const Backbone& backbone,
                                                 const Hyperparams& hyperparams) {
  return std::make_unique<MultiResolutionNeck>(options, backbone, hyperparams);
}

std::string multi_resolution_keras_name(const std::string& extractor, const std::string& name) {
  const std::string place = extractor + "/FeatureMaps", end = "_depthwise.depthwise_weights";
  if (!name.ends_with(end)) return keras_block_name(place, name);
  return place + "/" + name.substr(0, name.size() - end.size()) + "_depthwise_conv/depthwise_kernel";
}

}  // namespace osprey::nn
