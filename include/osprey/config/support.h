#pragma once
#include <vector>

#include "osprey/config/findings.h"
#include "osprey/config/pipeline.h"

namespace osprey::config {

/// Valid choices of the pipeline that are not built yet; components report theirs when they are built.
struct Unsupported {
  std::vector<Remark> refused;  ///< would change numbers
  std::vector<Remark> listed;   ///< ignored or replaced by a later field, said once
};
Unsupported unsupported_choices(const Pipeline& pipeline);

/// throws ConfigError "... is not supported yet: model.faster_rcnn" where anything of it is refused or, with `strict`,
///        listed
void require_supported(const Pipeline& pipeline);

}  // namespace osprey::config
