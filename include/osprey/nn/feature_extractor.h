#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/registry.h"
#include "osprey/config/type_registry.h"
#include "osprey/nn/backbone.h"
#include "osprey/nn/neck.h"

namespace osprey::protos {
class SsdFeatureExtractor;
}

namespace osprey::nn {

/// What a network expects of its pixels: value * scale + offset, for values of 0 to 255 in the order R, G, B.
struct Normalization {
  std::array<float, 3> scale = {1, 1, 1}, offset = {0, 0, 0};
};

struct FeatureExtractorOptions {
  bool freeze_batch_norm = false;
  std::optional<Quantization> quantization = std::nullopt;  ///< nothing: the float network
};

/// Images in, the feature maps that predictions are made from out: a backbone and a neck.
///
/// Built-in ones share one message and are registered by the `type` in it (`Types`); one from another program is
/// registered by its own message (`Registry`) and named through the `custom` field.
class FeatureExtractor : public torch::nn::Module {
 public:
  using Types = config::TypeRegistry<FeatureExtractor, const config::ConfigNode<protos::SsdFeatureExtractor>&,
                                     const FeatureExtractorOptions&>;
  using Registry = config::Registry<FeatureExtractor, const FeatureExtractorOptions&>;

  virtual Normalization normalization() const = 0;

  /// images  [B, 3, H, W] float, normalised, padded with zeros
  /// Gives one [B, depth, h, w] per level, finest first.
  virtual std::vector<at::Tensor> forward(const at::Tensor& images, const Context& context) = 0;

  /// Channels of each feature map.
  virtual std::vector<int64_t> depths() const = 0;

  /// Smallest height and width that the network is made for.
  virtual int64_t min_image_side() const { return 1; }

  /// Names, within the extractor, of the variables that a classification checkpoint of the backbone holds.
  virtual std::vector<std::string> backbone_variables() const = 0;
};

/// An extractor made of a backbone and a neck that share the backbone's scope.
class BackboneFeatureExtractor : public FeatureExtractor {
 public:
  struct Options {
    Normalization normalization;
    int64_t pad_to_multiple = 1;  ///< zeros at the bottom and right, up to a multiple of this
    int64_t min_image_side = 1;
  };
  BackboneFeatureExtractor(std::shared_ptr<Backbone> backbone, std::shared_ptr<Neck> neck, const Options& options);

  Normalization normalization() const override { return options_.normalization; }
  std::vector<at::Tensor> forward(const at::Tensor& images, const Context& context) override;
  std::vector<int64_t> depths() const override { return neck_->depths(); }
  int64_t min_image_side() const override { return options_.min_image_side; }
  std::vector<std::string> backbone_variables() const override { return backbone_variables_; }

 private:
  std::shared_ptr<Backbone> backbone_;
  std::shared_ptr<Neck> neck_;
  Options options_;
  std::vector<std::string> backbone_variables_;
};

}  // namespace osprey::nn
