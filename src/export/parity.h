#pragma once
#include <torch/csrc/jit/api/module.h>

#include <vector>

#include "osprey/data/image_resizer.h"
#include "osprey/export/exporter.h"
#include "osprey/models/detection_model.h"

namespace osprey {

/// Runs pictures through resizer and model, and through a served module, and compares what they find.
///
/// A detection of one side must have a partner on the other with the same class and with score and coordinates within
/// the tolerance; only what scores no more than the threshold, or than the last of a full list or of a class that is
/// full, may lack one, to within the tolerance. Where a picture fails, boxes and scores before suppression decide: if
/// the served ones are no further from the model's than noise of 1e-5 in the normalised pixels moves the model's own
/// (four times that for a network trained for 8 bits), the network makes rounding that large, and if the
/// model's suppression makes of the served ones what was served, the picture counts as `left_to_rounding`.
/// images  [H, W, 3] uint8 each
/// throws  ExportError naming picture and detection for the first that has no partner
ExportReport compare(models::DetectionModel& model, const data::ImageResizer& resizer, torch::jit::Module& served,
                     int64_t batch_size, const std::vector<at::Tensor>& images, double tolerance);

/// How much of what a model finds its served module does, that was rounded to 8 bits.
RoundingReport agreement(models::DetectionModel& model, const data::ImageResizer& resizer, torch::jit::Module& served,
                         int64_t batch_size, const std::vector<at::Tensor>& images);

}  // namespace osprey
