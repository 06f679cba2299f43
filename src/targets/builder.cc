#include "osprey/targets/builder.h"

#include "osprey/boxes/builder.h"
#include "osprey/protos/matcher.pb.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/protos/ssd.pb.h"
#include "osprey/protos/target_assigner.pb.h"

namespace osprey::targets {

std::unique_ptr<Matcher> build_matcher(const config::ConfigNode<proto::Matcher>& node) {
  return Matcher::Registry::instance().build(node, "matcher_oneof");
}

std::unique_ptr<RegionSimilarity> build_region_similarity(
    const config::ConfigNode<proto::RegionSimilarityCalculator>& node) {
  return RegionSimilarity::Registry::instance().build(node, "region_similarity");
}

std::unique_ptr<TargetAssigner> build_target_assigner(const config::ConfigNode<proto::Ssd>& cfg) {
  if (cfg->num_classes() < 1) cfg.fail("num_classes", "must be >= 1, got " + std::to_string(cfg->num_classes()));
  if (!(cfg->negative_class_weight() >= 0))
    cfg.fail("negative_class_weight", "must be >= 0, got " + std::to_string(cfg->negative_class_weight()));
  if (!(cfg->implicit_example_weight() >= 0))
    cfg.fail("implicit_example_weight", "must be >= 0, got " + std::to_string(cfg->implicit_example_weight()));
  if (cfg->explicit_background_class() && cfg->add_background_class())
    cfg.fail("explicit_background_class", "needs add_background_class: false");
  TargetAssignerOptions options;
  options.num_classes = cfg->num_classes();
  options.add_background_class = cfg->add_background_class();
  options.explicit_background_class = cfg->explicit_background_class();
  options.encode_background_as_zeros = cfg->encode_background_as_zeros();
  options.negative_class_weight = cfg->negative_class_weight();
  options.use_confidences_as_targets = cfg->use_confidences_as_targets();
  options.implicit_example_weight = cfg->implicit_example_weight();
  return std::make_unique<TargetAssigner>(
      build_region_similarity(cfg.child("similarity_calculator", cfg->similarity_calculator())),
      build_matcher(cfg.child("matcher", cfg->matcher())),
      boxes::build_box_coder(cfg.child("box_coder", cfg->box_coder())), options);
}

std::unique_ptr<TargetAssigner> build_target_assigner(const config::ConfigNode<proto::TargetAssigner>& cfg,
                                                      const TargetAssignerOptions& options) {
  return std::make_unique<TargetAssigner>(
      build_region_similarity(cfg.child("similarity_calculator", cfg->similarity_calculator())),
      build_matcher(cfg.child("matcher", cfg->matcher())),
      boxes::build_box_coder(cfg.child("box_coder", cfg->box_coder())), options);
}

}  // namespace osprey::targets
