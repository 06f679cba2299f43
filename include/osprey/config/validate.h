#pragma once
#include <string>
#include <vector>

#include "osprey/config/pipeline.h"
#include "osprey/config/support.h"

namespace osprey::config {

/// Checks what no component checks for itself: ranges in train_config, eval_config and the readers, values that are not
/// finite, strings with control characters, and fields that contradict each other.
///
/// throws  ConfigError with every finding
void validate(const Pipeline& pipeline);

/// Refuses paths in which the placeholder PATH_TO_BE_CONFIGURED was left.
///
/// parts   the fields to look at, with all below them: {"train_config", "train_input_reader"}; empty: the whole config
/// throws  ConfigError that names every such field
void require_configured_paths(const Pipeline& pipeline, const std::vector<std::string>& parts = {});

/// What a program does with its config before anything else: ranges (`validate`) and choices that are not built
/// (`require_supported`) throw, deprecated and ignored fields are logged, one line each.
void check(const Pipeline& pipeline);

}  // namespace osprey::config
