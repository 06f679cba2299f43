// MobileNet v2, without its last 1x1 convolution, and MnasFPN.
#include "nn/extractors/options.h"
#include "nn/necks/mnasfpn.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v2_mnasfpn(const ExtractorNode& node,
                                                                const FeatureExtractorOptions& options) {
  if (node->has_bifpn()) node.fail("bifpn", "is not used by " + node->type());
  refuse_num_layers(node);
  BackboneOptions base = backbone_options(node, options);
  MnasfpnOptions neck{.endpoints = {"layer_7", "layer_14", "layer_18"},
                      .depth_multiplier = node->depth_multiplier(),
                      .min_depth = node->min_depth(),
                      .use_explicit_padding = node->use_explicit_padding(),
                      .freeze_batch_norm = options.freeze_batch_norm};
  if (node->has_fpn()) {  // without one the network's own depth, not the default of the message
    const auto fpn = node.child("fpn", node->fpn());
    if (fpn->min_level() != 3) fpn.fail("min_level", "must be 3 for " + node->type());
    if (fpn->max_level() != 6) fpn.fail("max_level", "must be 6 for " + node->type());
    if (fpn->additional_layer_depth() < 1) fpn.fail("additional_layer_depth", "must be >= 1");
    neck.depth = fpn->additional_layer_depth();
  }
  base.hyperparams = mnasfpn_hyperparams(0.00004, options.freeze_batch_norm);
  base.last_endpoint = neck.endpoints.back();
  std::shared_ptr<Backbone> backbone = Backbone::Types::instance().build("mobilenet_v2", base);
  std::shared_ptr<Neck> pyramid = make_mnasfpn_neck(neck, *backbone);
  return std::make_unique<BackboneFeatureExtractor>(std::move(backbone), std::move(pyramid),
                                                    extractor_options(node, kMinusOneToOne, /*min_image_side=*/33));
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v2_mnasfpn", &make_ssd_mobilenet_v2_mnasfpn);

}  // namespace
}  // namespace osprey::nn
