#pragma once
#include <array>
#include <functional>
#include <vector>

#include "export/tflite/graph.h"
#include "osprey/models/detection_model.h"

namespace osprey {
struct Calibration;
}

namespace osprey::tflite {

/// Half of the range of pixels: float networks take pixel / kHalfRange - 1.
constexpr float kHalfRange = 127.5f;

/// Writes what a model makes of one picture, the graph's input `normalized_input_image_tensor` [1, H, W, 3]: float32,
/// pixel / 127.5 - 1, or of one for 8 bits pixels, uint8. Numbers inside are uint8 then, or int8 where the weights of
/// each channel have a range of their own.
///
/// model        in evaluation mode
/// canvas       height and width of the picture
/// function     from what the model predicts to one tuple of tensors
/// calibration  by which the network is rounded to 8 bits; null: it is left as it was trained
/// returns      what its elements are in the graph
/// throws       ConfigError naming an operation that cannot be written; c10::Error for a form of an operation that no
///              rule thought of
std::vector<Value> add_network(Graph& graph, models::DetectionModel& model, const std::array<int64_t, 2>& canvas,
                               const std::function<c10::IValue(const Predictions&)>& function,
                               const Calibration* calibration = nullptr);

}  // namespace osprey::tflite
