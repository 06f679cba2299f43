#pragma once
#include <string>
#include <vector>

#include "osprey/config/findings.h"
#include "osprey/config/pipeline.h"

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

/// What a program wants a config for.
enum class Purpose { kInspect, kTrain, kEvaluate, kExport };

/// Valid choices of the pipeline that are not built yet; components report theirs when they are built.
struct Unsupported {
  std::vector<Remark> refused;  ///< would change numbers
  std::vector<Remark> listed;   ///< ignored or replaced by a later field, said once
};
Unsupported unsupported_choices(const Pipeline& pipeline, Purpose purpose);

/// throws ConfigError "... is not supported yet: model.faster_rcnn" where anything of it is refused or, with `strict`,
///        listed
void require_supported(const Pipeline& pipeline, Purpose purpose);

/// Deprecated fields and spellings that the config sets, each with what becomes of it. For one line each in the log.
std::vector<Remark> deprecated_fields(const Pipeline& pipeline);

/// All of the above but the placeholders, once per program: range checks and unbuilt choices throw, deprecated and
/// ignored fields are logged, one line each; with `strict` ignored ones throw, too.
void check(const Pipeline& pipeline, Purpose purpose);

}  // namespace osprey::config
