#include "nn/extractors/options.h"

namespace osprey::nn {
namespace {

std::unique_ptr<FeatureExtractor> make_ssd_mobilenet_v1_ppn(const ExtractorNode& node,
                                                            const FeatureExtractorOptions& options) {
  refuse_pyramid(node);
  if (node->num_layers() < 1) node.fail("num_layers", "must be >= 1");
  std::shared_ptr<Backbone> backbone =
      Backbone::Types::instance().build("mobilenet_v1", backbone_options(node, options));
  std::shared_ptr<Neck> pyramid =
      make_pooling_pyramid_neck({.endpoint = "Conv2d_11_pointwise", .num_layers = node->num_layers()}, *backbone,
                                neck_hyperparams(node, options));
  return std::make_unique<BackboneFeatureExtractor>(std::move(backbone), std::move(pyramid),
                                                    extractor_options(node, kMinusOneToOne, /*min_image_side=*/33));
}
OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1_ppn", &make_ssd_mobilenet_v1_ppn);

}  // namespace
}  // namespace osprey::nn
