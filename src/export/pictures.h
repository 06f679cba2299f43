#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
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

/// Shows pictures of the training data, in the same way, one after the other. Those that cannot be read are left out
/// with a warning.
/// returns  how many were shown
/// throws   DataError, ConfigError where the data cannot be read, or there is no picture; a DataError of `look` with the
///          record's name in front
int64_t show_training_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels, int64_t wanted,
                               const std::function<void(const at::Tensor& picture)>& look);

/// A picture on the canvas, as one image.
Batch on_canvas(const ServedResize& size, const data::ImageResizer& resizer, const at::Tensor& picture);

}  // namespace osprey
