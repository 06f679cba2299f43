// Backbones as classifiers of pictures have them: whole, with the mean of the last map behind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "nn/extractors/options.h"
#include "osprey/base/nearest.h"
#include "osprey/nn/builder.h"
#include "osprey/nn/neck.h"

namespace osprey::nn {
namespace {

/// What is known of a backbone.
struct KnownBackbone {
  const char* type;
  const char* last_endpoint;
  const char* logits_scope;  ///< within its own, as in the published classification checkpoints
  Normalization normalization;
  int64_t min_image_side = 32;  ///< of which strides leave one place
};

const char* const kSlimLogits = "Logits/Conv2d_1c_1x1";

const std::array kKnown = {KnownBackbone{"resnet_v1_18", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"resnet_v1_34", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"resnet_v1_50", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"resnet_v1_101", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"resnet_v1_152", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"resnet_v1_200", "block4", "logits", kMinusImageNetMean},
                           KnownBackbone{"mobilenet_v1", "Conv2d_13_pointwise", kSlimLogits, kMinusOneToOne},
                           KnownBackbone{"mobilenet_v2", "layer_19", kSlimLogits, kMinusOneToOne},
                           KnownBackbone{"inception_v2", "Mixed_5c", kSlimLogits, kMinusOneToOne},
                           KnownBackbone{"inception_v3", "Mixed_7c", kSlimLogits, kMinusOneToOne, 75}};

const KnownBackbone& known(const ExtractorNode& node) {
  std::vector<std::string> types;
  for (const KnownBackbone& backbone : kKnown) {
    if (node->type() == backbone.type) return backbone;
    types.push_back(backbone.type);
  }
  if (node->type().empty()) node.fail("type", "must be set");
  const std::string meant = nearest(node->type(), types);
  node.fail("type",
            "'" + node->type() + "' " + (meant.empty() ? "" : "(did you mean '" + meant + "'?) ") +
                fmt::format("is not a backbone that classifies pictures; known are {}", fmt::join(types, ", ")));
}

/// The mean of one map over its places, [B, depth, 1, 1].
class GlobalMean final : public Neck {
 public:
  GlobalMean(std::string endpoint, int64_t depth) : endpoint_(std::move(endpoint)), depth_(depth) {}

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    return {endpoints.at(endpoint_).mean({2, 3}, /*keepdim=*/true)};
  }
  std::set<std::string> endpoints() const override { return {endpoint_}; }
  std::vector<int64_t> depths() const override { return {depth_}; }

 private:
  std::string endpoint_;
  int64_t depth_;
};

}  // namespace

ClassificationBackbone build_classification_backbone(const ExtractorNode& node,
                                                     const FeatureExtractorOptions& options) {
  const KnownBackbone& of_type = known(node);
  refuse_pyramid(node);
  if (node->has_num_layers()) node.fail("num_layers", "is not used by " + node->type() + ", which is taken whole");
  if (node->has_custom()) node.fail("custom", "is not used by classifiers of pictures");
  if (node->use_depthwise())
    node.fail("use_depthwise", "is not used by " + node->type() + ", to which no layers are added");
  if (node->replace_preprocessor_with_placeholder()) node.unsupported("replace_preprocessor_with_placeholder");
  BackboneOptions backbone = backbone_options(node, options);
  backbone.hyperparams = neck_hyperparams(node, options);
  backbone.hyperparams_decide_all = true;
  const auto& batch_norm = backbone.hyperparams->batch_norm;
  if (backbone.residual.zero_init_last_batch_norm && !(batch_norm && batch_norm->scale))
    node.fail("residual_network.zero_init_last_batch_norm", "needs a batch norm in conv_hyperparams, with scale");
  backbone.last_endpoint = of_type.last_endpoint;
  std::shared_ptr<Backbone> network = Backbone::Types::instance().build(of_type.type, backbone);
  const int64_t depth = network->depth(of_type.last_endpoint);
  const std::string logits_scope = network->scope() + "/" + of_type.logits_scope;
  return {std::make_shared<BackboneFeatureExtractor>(
              std::move(network), std::make_shared<GlobalMean>(of_type.last_endpoint, depth),
              extractor_options(node, of_type.normalization, of_type.min_image_side)),
          logits_scope, neck_hyperparams(node, options)};
}

}  // namespace osprey::nn
