#pragma once
#include <vector>

#include "osprey/config/findings.h"
#include "osprey/config/pipeline.h"

namespace osprey::config {

/// Deprecated fields and spellings that the config sets, each with what becomes of it. For one line each in the log.
std::vector<Remark> deprecated_fields(const Pipeline& pipeline);

}  // namespace osprey::config
