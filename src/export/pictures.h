#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "export/served_module.h"
#include "osprey/config/label_map.h"
#include "osprey/config/pipeline.h"
#include "osprey/core/batch.h"
#include "osprey/data/image_resizer.h"

namespace osprey {

// Pictures that a network is tried on, [H, W, 3] uint8.

/// Pictures of the evaluation data, spread over it, so that not only the first folder's are seen; their classes and
/// boxes are not asked for. Where they cannot be read, noise and a warning.
/// real  whether it is not noise
std::vector<at::Tensor> parity_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                        int64_t wanted, bool& real);

/// Pictures of the training data, in the same way.
/// throws  DataError, ConfigError where they cannot be read, or there is none
std::vector<at::Tensor> training_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                          int64_t wanted);

/// A picture on the canvas, as one image.
Batch on_canvas(const ServedResize& size, const data::ImageResizer& resizer, const at::Tensor& picture);

}  // namespace osprey
