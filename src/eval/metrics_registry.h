#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

using MetricsFactory =
    std::function<std::unique_ptr<DetectionMetrics>(const std::vector<Category>&, const MetricsOptions&)>;

/// The metrics by the names that `metrics_set` uses; each metric's file adds itself before main.
std::map<std::string, MetricsFactory>& metrics_factories();
bool register_metrics(const std::string& name, MetricsFactory factory);

/// Throws a DataError with the image where its lists disagree in length.
void check_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found);

}  // namespace osprey::eval
