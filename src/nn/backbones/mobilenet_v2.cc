// MobileNet v2: inverted residuals.
// Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, table 2.
#include "nn/backbones/mobilenet_chain.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

/// last_depth  of the 1x1 convolution at the end
std::vector<MobilenetLayer> layers(int64_t last_depth) {
  struct Stage {
    double expansion;
    int64_t depth, count, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::vector<MobilenetLayer> result{{0, 32, 3, 2, Activation::kRelu6}};
  for (const Stage& stage : kStages)
    for (int64_t i = 0; i < stage.count; ++i)
      result.push_back({stage.expansion, stage.depth, 3, i == 0 ? stage.stride : 1, Activation::kRelu6});
  result.push_back({.depth = last_depth, .activation = Activation::kRelu6, .last = true});
  return result;
}

std::unique_ptr<Backbone> make_mobilenet_v2(const BackboneOptions& options) {
  return make_mobilenet_chain("MobilenetV2", layers(1280), options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v2", &make_mobilenet_v2);

/// Below a feature pyramid, whose projection would reduce the last map at once.
std::unique_ptr<Backbone> make_slender(const BackboneOptions& options) {
  return make_mobilenet_chain("MobilenetV2", layers(256), options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v2_fpn", &make_slender);

/// Conv.weights is Conv1/kernel, expanded_conv_3.expand.BatchNorm.gamma is block_3_expand_BN/gamma; the first and the
/// last layer call their batch norms otherwise.
std::string keras_name_in_mobilenet_v2(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const bool normalises = scope.ends_with(".BatchNorm");
  std::string layer = normalises ? scope.substr(0, scope.rfind('.')) : scope;
  if (layer == "Conv") return (normalises ? "bn_Conv1/" : "Conv1/") + keras_leaf(leaf);
  if (layer == "Conv_1") return (normalises ? "Conv_1_bn/" : "Conv_1/") + keras_leaf(leaf);
  std::replace(layer.begin(), layer.end(), '.', '_');
  const std::string numbered = "expanded_conv_";
  if (layer.starts_with(numbered) && std::isdigit(static_cast<unsigned char>(layer[numbered.size()])) != 0)
    layer = "block_" + layer.substr(numbered.size());
  return layer + (normalises ? "_BN/" : "/") + keras_leaf(leaf);
}
[[maybe_unused]] const bool named_mobilenet_v2 =
    add_keras_names("FeatureExtractor.MobilenetV2.", &keras_name_in_mobilenet_v2);

}  // namespace
}  // namespace osprey::nn
