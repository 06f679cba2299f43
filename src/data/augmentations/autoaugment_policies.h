#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace osprey::data {

/// One operation of a policy. Those whose name ends with "_BBox" move the boxes along, those with "_Only_BBoxes" act
/// inside every box on its own.
struct PolicyStep {
  std::string_view operation;
  float probability;  ///< that the operation is applied; in a box a third of it
  int level;          ///< strength, 0..10
};

/// Some lists of steps, of which one is drawn for every image and applied in its order.
using Policy = std::vector<std::vector<PolicyStep>>;

/// The policy of that name: "v0", that of the paper, "v1" to "v3", which its authors found by other searches, and
/// "test". Empty for any other name.
/// source   Zoph et al., "Learning Data Augmentation Strategies for Object Detection", 2019, appendix A
Policy policy_named(const std::string& name);

}  // namespace osprey::data
