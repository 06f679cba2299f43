#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "osprey/train/step.h"

namespace osprey::train {

/// The first place where the forward pass of a batch leaves the finite numbers.
struct NonFinite {
  std::string layer;  ///< variable whose operation gave it, e.g. "net.conv1_weights"; "" where all outputs are finite
  std::string operation;  ///< e.g. "aten::convolution"
};

/// Runs the forward pass and the losses once more, without changing the model, and looks at the output of each
/// operation.
NonFinite first_non_finite(models::DetectionModel& model, const Batch& batch, const StepOptions& options);

struct NanReportOptions {
  std::filesystem::path model_dir;
  std::vector<std::string> class_names;
  StepOptions step;
};

struct NanReport {
  std::filesystem::path folder;
  std::string summary;  ///< the terms, the layer and the checkpoint below, for the message that ends the run
};

/// Writes <model_dir>/nan_report/: report.json (step, learning rate, every loss term, the terms that are not finite,
/// the first layer with a non-finite output, variables with a non-finite value or gradient, the ids and boxes of the
/// batch, the last finite checkpoint) and the pictures with their boxes, image_<i>.png.
///
/// throws  DataError where it cannot be written
NanReport write_nan_report(TrainState& state, const Batch& batch, const StepResult& result,
                           const NanReportOptions& options);

}  // namespace osprey::train
