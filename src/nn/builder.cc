#include "osprey/nn/builder.h"

#include "osprey/base/nearest.h"
#include "osprey/protos/box_predictor.pb.h"
#include "osprey/protos/ssd.pb.h"

namespace osprey::nn {

std::shared_ptr<FeatureExtractor> build_feature_extractor(const config::ConfigNode<proto::SsdFeatureExtractor>& node,
                                                          const FeatureExtractorOptions& options) {
  if (node->has_custom())
    return FeatureExtractor::Registry::instance().build(config::unpacked(node.child("custom", node->custom())),
                                                        options);
  if (node->type().empty()) node.fail("type", "must be set");
  if (!FeatureExtractor::Types::instance().has(node->type())) {
    const std::string meant = nearest(node->type(), FeatureExtractor::Types::instance().names());
    node.fail("type", "'" + node->type() + "' " + (meant.empty() ? "" : "(did you mean '" + meant + "'?) ") +
                          "is not supported yet: " + node.path_of("type"));
  }
  if (node->replace_preprocessor_with_placeholder()) node.unsupported("replace_preprocessor_with_placeholder");
  return FeatureExtractor::Types::instance().build(node->type(), node, options);
}

std::shared_ptr<BoxPredictor> build_box_predictor(const config::ConfigNode<proto::BoxPredictor>& node,
                                                  const BoxPredictorOptions& options) {
  return BoxPredictor::Registry::instance().build(node, "box_predictor_oneof", options);
}

}  // namespace osprey::nn
