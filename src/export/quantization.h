#pragma once
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/models/detection_model.h"

namespace osprey {

/// From where to where values lie; zero is never outside.
struct ValueRange {
  float least = 0, largest = 0;
};

/// What a network that was trained with floats is rounded by.
struct Calibration {
  /// Whether what the first convolutions read is rounded, too: where pixels do not stand for it as they are.
  bool rounds_picture = false;
  std::vector<ValueRange> ranges = {};  ///< of what is rounded, in the order of the network
};

/// Finds the ranges of a model's values on pictures: the widest of all.
class Calibrator {
 public:
  /// model    in evaluation mode; must outlive this
  /// example  a batch of one picture on the canvas, as all of `show` are; it does not count
  /// throws   ConfigError where the model was trained for 8 bits
  Calibrator(models::DetectionModel& model, const Batch& example);
  ~Calibrator();

  void show(const Batch& picture);
  const Calibration& result() const { return result_; }

 private:
  models::DetectionModel& model_;
  Calibration result_;
  std::unique_ptr<torch::jit::Code>
      code_;  ///< gives the least and the largest of each value behind what a network gives
};

/// Rounds a network to 8 bits after its training, by fake_quantize operations of libtorch: the weights of convolutions
/// by a range for each channel of the result; and by one range each what convolutions, sums, products and the like give
/// from the first convolutions to the last ones, behind an activation that alone reads it. What is computed from the
/// results of the last convolutions, such as scores and boxes, is not rounded.
///
/// network      of the calibrated model, as `traced_network` gives it; replaced
/// source       Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference: A whitepaper", 2018,
///              section 3.1
void quantize(std::shared_ptr<torch::jit::Graph>& network, const Calibration& calibration);

}  // namespace osprey
