#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osprey/boxes/tiles.h"
#include "osprey/eval/at_iou_50.h"
#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// The text of metrics_<step>.json, see docs/evaluation.md; values that do not exist are null.
/// at_iou_50  of the classes of `per_class`; may be null
/// tiles      in which pictures were looked at; none: they were looked at as a whole
std::string evaluation_json(const std::vector<MetricValue>& metrics, const std::vector<ClassMetrics>& per_class,
                            const AtIou50* at_iou_50, int64_t num_images, int64_t num_skipped,
                            std::optional<int64_t> step, const std::optional<boxes::TileOptions>& tiles = {});

}  // namespace osprey::eval
