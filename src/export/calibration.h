#pragma once
#include <torch/csrc/jit/runtime/interpreter.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/models/detection_model.h"

namespace osprey {

/// From where to where values lie; zero is never outside.
struct ValueRange {
  float least = 0, largest = 0;
  bool operator==(const ValueRange&) const = default;
};

/// What a network that was trained with floats is rounded by.
struct Calibration {
  /// What lies between two pixels for the network, where one stands for zero; nothing: what the first convolutions read
  /// is rounded, too.
  std::optional<float> pixel_step = {};
  std::vector<ValueRange> ranges = {};  ///< of what is rounded, in the order of the network
};

/// Finds the ranges of a model's values on pictures: the widest of all.
class Calibrator {
 public:
  /// model   in evaluation mode; must outlive this
  /// canvas  height and width of pictures
  /// throws  ConfigError where the model was trained for 8 bits
  Calibrator(models::DetectionModel& model, const std::array<int64_t, 2>& canvas);

  /// picture  a batch of one on the canvas
  /// throws   DataError where the network makes no finite numbers of it
  void show(const Batch& picture);
  const Calibration& result() const { return result_; }

 private:
  models::DetectionModel& model_;
  Calibration result_;
  torch::jit::Code code_;  ///< gives the least and the largest of each value behind what the network gives
};

}  // namespace osprey
