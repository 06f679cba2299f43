#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make(const ExtractorNode& node, const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (node->num_layers() < 1) node.fail("num_layers", "must be >= 1");
  std::shared_ptr<Backbone> backbone =
      Backbone::Types::instance().build("mobilenet_v1", backbone_options(node, options));
  std::shared_ptr<Neck> pyramid =
      make_pooling_pyramid_neck({.endpoint = "Conv2d_11_pointwise", .num_layers = node->num_layers()}, *backbone,
                                neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(
      std::move(backbone), std::move(pyramid),
      BackboneFeatureExtractor::Options{normalization(node, kMinusOneToOne), pad_to_multiple(node),
                                        /*min_image_side=*/33});
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_ppn", &make);

}  // namespace
}  // namespace osprey::nn
