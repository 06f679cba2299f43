#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osprey/eval/evaluator.h"

namespace osprey::eval {

/// What a detector did on one image.
struct ImageFindings {
  int64_t row = 0;  ///< of the batch
  std::string id;   ///< of the record; may be "" or that of another image, too
  ImageGroundTruth truth;
  ImageDetections found;   ///< of all classes
  int64_t not_finite = 0;  ///< detections left out, for they had a value that was not
  at::Tensor picture;      ///< as in EvaluationPicture; undefined where none was drawn
};

/// What a detector did on one batch of an evaluation; fillings of the last batch are left out.
struct BatchFindings {
  int64_t index = 0;  ///< of the batch in the data set
  std::vector<ImageFindings> images;
  std::vector<MetricValue> losses;   ///< un-normalised sums
  std::optional<double> normalizer;  ///< of the losses, where they have one
  int64_t broken_images = 0;         ///< for which the network gave a score that is NaN or infinite
};

/// What one of several processes has found.
struct ShareFindings {
  bool stopped = false;     ///< `should_stop` ended it early, and no batches are given
  int64_t num_skipped = 0;  ///< records that could not be used
  std::vector<BatchFindings> batches;
};

/// Findings as bytes for another process, every number with all its bits; and back.
std::string to_bytes(const ShareFindings& findings);
ShareFindings findings_from(const std::string& bytes);

}  // namespace osprey::eval
