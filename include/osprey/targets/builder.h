#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/targets/matcher.h"
#include "osprey/targets/region_similarity.h"
#include "osprey/targets/target_assigner.h"

namespace osprey::protos {
class Matcher;
class RegionSimilarityCalculator;
class Ssd;
class TargetAssigner;
}  // namespace osprey::protos

/// The builders of this room. All throw ConfigError with file, line and field for a value out of range or a choice that
/// is missing or not built yet.
namespace osprey::targets {

/// The matcher chosen in `matcher_oneof`.
std::unique_ptr<Matcher> build_matcher(const config::ConfigNode<proto::Matcher>& node);

/// The measure chosen in `region_similarity`.
std::unique_ptr<RegionSimilarity> build_region_similarity(
    const config::ConfigNode<proto::RegionSimilarityCalculator>& node);

/// From matcher, similarity, box coder and the target options of an SSD (num_classes, background, weights,
/// confidences).
std::unique_ptr<TargetAssigner> build_target_assigner(const config::ConfigNode<proto::Ssd>& node);

/// From the message of its own.
std::unique_ptr<TargetAssigner> build_target_assigner(const config::ConfigNode<proto::TargetAssigner>& node,
                                                      const TargetAssignerOptions& options);

}  // namespace osprey::targets
