#pragma once
#include <string>

#include "osprey/config/pipeline.h"
#include "osprey/models/summary.h"

namespace osprey::models {

/// What a pipeline config says, for people: every value with its origin, whose arithmetic it follows, deprecated fields
/// and ignored choices, and each part whose shape is not fixed with its substitute. Needs no model.
std::string config_report(const config::Pipeline& pipeline);

/// The shape of its model, for people.
std::string model_report(const Summary& summary);

/// Both as one JSON object, ending with a newline. Keys: trainable_parameters, total_parameters, input_size [height,
/// width], feature_maps (list of [height, width, depth]), num_anchors, box_encodings_shape, class_predictions_shape,
/// arithmetic, values (path, value, origin, line of every value that is set), remarks, dynamic_parts (field, why,
/// substitute).
std::string inspection_json(const config::Pipeline& pipeline, const Summary& summary);

}  // namespace osprey::models
