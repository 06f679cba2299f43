#include <fmt/format.h>

#include "osprey/base/error.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/neck.h"
#include "osprey/nn/separable_convolution.h"

namespace osprey::nn {
namespace {

class FeaturePyramidNeck final : public Neck {
 public:
  FeaturePyramidNeck(const FeaturePyramidOptions& options, const Backbone& backbone, const Hyperparams& hyperparams)
      : endpoints_(options.endpoints),
        depths_(options.endpoints.size() + options.coarse_scopes.size(), options.depth),
        crop_(options.use_explicit_padding),
        descend_smoothed_(options.keras) {
    TORCH_CHECK(!endpoints_.empty(), "a feature pyramid needs an endpoint of the backbone");
    Hyperparams added = hyperparams;
    std::optional<Initializer> depthwise_initializer;
    if (options.keras && options.use_depthwise) {
      const KerasSeparable keras = keras_separable(hyperparams, /*pointwise_too=*/false);
      added = keras.hyperparams;
      depthwise_initializer = keras.depthwise_initializer;
    }
    const ConvBlockOptions smooth{.in_depth = options.depth,
                                  .out_depth = options.depth,
                                  .kernel = {3, 3},
                                  .padding = options.use_explicit_padding ? Padding::kFixed : Padding::kSame};
    for (size_t level = 0; level < endpoints_.size(); ++level) {
      projections_.push_back(
          add_child(*this, fmt::format("fpn/projection_{}", level + 1),
                    std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = backbone.depth(endpoints_[level]),
                                                                 .out_depth = options.depth,
                                                                 .normalize = false,
                                                                 .activate = false},
                                                hyperparams)));
      if (level + 1 < endpoints_.size())
        smoothings_.push_back(add_convolution(*this, fmt::format("fpn/smoothing_{}", level + 1), options.use_depthwise,
                                              smooth, added, depthwise_initializer));
    }
    for (size_t sums = endpoints_.size() - 1; sums-- > 0;)  // in the order of levels; the last is made first
      sum_quantizers_.push_back(add_sum_quantizer(
          *this, sums == 0 ? "fpn/sum_quant" : fmt::format("fpn/sum_{}_quant", sums), hyperparams.quantization));
    ConvBlockOptions halve = smooth;
    halve.stride = 2;
    for (const std::string& scope : options.coarse_scopes)
      coarse_.push_back(
          add_convolution(*this, "fpn/" + scope, options.use_depthwise, halve, added, depthwise_initializer));
  }

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    std::vector<at::Tensor> maps(endpoints_.size());
    at::Tensor descending;  // what the coarser levels hand down
    for (size_t level = endpoints_.size(); level-- > 0;) {
      const at::Tensor own = projections_[level]->forward(endpoints.at(endpoints_[level]));
      at::Tensor sum = descending.defined() ? add_upsampled(own, descending) : own;
      if (descending.defined() && sum_quantizers_[level]) sum = sum_quantizers_[level]->forward(sum);
      maps[level] = level < smoothings_.size() ? smoothings_[level]->forward(FeatureMap(sum)).values() : sum;
      descending = descend_smoothed_ ? maps[level] : sum;
    }
    for (const auto& halve : coarse_) maps.push_back(halve->forward(FeatureMap(maps.back())).values());
    return maps;
  }

  std::set<std::string> endpoints() const override { return {endpoints_.begin(), endpoints_.end()}; }
  std::vector<int64_t> depths() const override { return depths_; }

 private:
  /// The coarse map, each value four times, and the fine one. With explicit padding what comes of the coarse map may be
  /// larger by a row or column, which the original cuts off.
  at::Tensor add_upsampled(const at::Tensor& fine, const at::Tensor& coarse) const {
    const int64_t height = 2 * coarse.size(2), width = 2 * coarse.size(3);
    const bool fits =
        crop_ ? fine.size(2) <= height && fine.size(3) <= width : fine.size(2) == height && fine.size(3) == width;
    if (!fits)
      throw ConfigError(
          fmt::format("the image size does not suit the feature pyramid: the levels must halve, but {}x{} is not twice "
                      "{}x{}; use a size that is a multiple of the coarsest stride, or pad_to_multiple",
                      fine.size(2), fine.size(3), coarse.size(2), coarse.size(3)));
    if (fine.is_meta()) return fine;
    const at::Tensor whole = upsampled(coarse, 2);
    return fine + (crop_ ? whole.slice(2, 0, fine.size(2)).slice(3, 0, fine.size(3)) : whole);
  }

  std::vector<std::string> endpoints_;
  std::vector<int64_t> depths_;
  bool crop_, descend_smoothed_;
  std::vector<std::shared_ptr<ConvBlock>> projections_;
  std::vector<std::shared_ptr<ConvolutionLayer>> smoothings_, coarse_;
  std::vector<std::shared_ptr<FakeQuantize>> sum_quantizers_;  // of each level but the coarsest; null: none
};

}  // namespace

std::unique_ptr<Neck> make_feature_pyramid_neck(const FeaturePyramidOptions& options, const Backbone& backbone,
                                                const Hyperparams& hyperparams) {
  return std::make_unique<FeaturePyramidNeck>(options, backbone, hyperparams);
}

std::string feature_pyramid_keras_name(const std::string& extractor, const std::string& name) {
  if (name.starts_with("bottom_up")) return keras_block_name(extractor, name);
  const std::string place = extractor + "/FeatureMaps/top_down";
  if (!name.starts_with("projection")) return keras_block_name(place, name);
  const auto [scope, leaf] = split_name(name);
  return place + "/" + scope + "/" + keras_leaf(leaf);
}

}  // namespace osprey::nn
