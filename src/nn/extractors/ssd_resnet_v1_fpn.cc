// RetinaNet's extractor, with the batch norms of the detection configs.
// Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.
#include <fmt/format.h>

#include "nn/extractors/options.h"
#include "osprey/nn/keras_names.h"

namespace osprey::nn {
namespace {

template <int kDepth>
std::unique_ptr<FeatureExtractor> make_ssd_resnet_v1_fpn(const ExtractorNode& node,
                                                         const FeatureExtractorOptions& options) {
  if (node->use_explicit_padding() && !is_keras(node))
    node.fail("use_explicit_padding", "must be false for " + node->type());
  return pyramid_extractor(node, options,
                           {.backbone = fmt::format("resnet_v1_{}", kDepth),
                            .endpoints = {"block1", "block2", "block3", "block4"},
                            .coarse_scope = "bottom_up_block",
                            .first_coarse = 5,
                            .separable = false,
                            .reads_padding = false,
                            .reads_fpn = !is_keras(node),
                            .normalization = kMinusImageNetMean,
                            .min_image_side = 129});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet18_v1_fpn", &make_ssd_resnet_v1_fpn<18>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet34_v1_fpn", &make_ssd_resnet_v1_fpn<34>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet50_v1_fpn", &make_ssd_resnet_v1_fpn<50>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet101_v1_fpn", &make_ssd_resnet_v1_fpn<101>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet152_v1_fpn", &make_ssd_resnet_v1_fpn<152>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet200_v1_fpn", &make_ssd_resnet_v1_fpn<200>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet50_v1_fpn_keras", &make_ssd_resnet_v1_fpn<50>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet101_v1_fpn_keras", &make_ssd_resnet_v1_fpn<101>);
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_resnet152_v1_fpn_keras", &make_ssd_resnet_v1_fpn<152>);

bool add_resnet_fpn_names() {
  for (const int depth : {50, 101, 152})
    add_keras_names(fmt::format("FeatureExtractor.resnet_v1_{}.fpn.", depth), [depth](const std::string& name) {
      return feature_pyramid_keras_name(fmt::format("ResNet{}V1_FPN", depth), name);
    });
  return true;
}
[[maybe_unused]] const bool named_ssd_resnet_v1_fpn = add_resnet_fpn_names();

}  // namespace
}  // namespace osprey::nn
