#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// {"step", "metrics", "per_class", "num_images", "num_skipped"}; values that do not exist are null.
nlohmann::ordered_json evaluation_json(const std::vector<MetricValue>& metrics,
                                       const std::vector<ClassMetrics>& per_class, int64_t num_images,
                                       int64_t num_skipped, std::optional<int64_t> step);

}  // namespace osprey::eval
