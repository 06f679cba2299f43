#pragma once
#include <vector>

#include "osprey/config/findings.h"
#include "osprey/config/pipeline.h"

namespace osprey::config {

/// One part of a training or evaluation step whose shape the config does not fix, with what to write instead.
struct DynamicPart {
  Remark remark;           ///< field, and why its shapes vary
  std::string substitute;  ///< config text that is static
  bool in_step = false;    ///< there a training step of ours reads values, or varies, so that it cannot be recorded
};

/// Every such part of a pipeline: image sizes that follow the image, boxes without padding, partial batches,
/// suppression and hard mining in the training graph, bipartite matching, suppression with results of varying length.
/// Empty for a pipeline that is static from end to end.
///
/// Osprey itself pads in all places that are not `in_step`; the report says what an accelerator that compiles whole
/// steps would refuse, and what keeps a step from being recorded once and repeated.
std::vector<DynamicPart> dynamic_parts(const Pipeline& pipeline);

}  // namespace osprey::config
