#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "osprey/models/detection_model.h"

namespace osprey {
struct Calibration;
}

namespace osprey::tflite {

struct File {
  std::string bytes;
  std::string input_type;  ///< "float32" or "uint8"
};

/// A detector as a file for TensorFlow Lite, of the form that exports of the TF Object Detection API have.
///
///   in   `normalized_input_image_tensor` [1, H, W, 3]: one picture, resized; float32, pixel / 127.5 - 1 whatever the
///        network takes; of one for 8 bits uint8, the pixels
///   out  `TFLite_Detection_PostProcess`, float32, boxes [1, D, 4] (ymin, xmin, ymax, xmax as fractions of the canvas),
///        classes [1, D] (from 0), scores [1, D], their number [1]
///
/// Boxes are decoded and suppressed by the operation of that name, class by class where the model does so, else among
/// the best classes of all anchors.
///
/// model        in evaluation mode
/// canvas       height and width of the input
/// calibration  by which the network is rounded to 8 bits; null: it is left as it was trained
/// throws       ConfigError naming what the format does not have
File detector(models::DetectionModel& model, const std::array<int64_t, 2>& canvas,
              const Calibration* calibration = nullptr);

/// A classifier of pictures, with the same input.
///
///   out  `scores`, float32 [1, C]
File classifier(models::DetectionModel& model, const std::array<int64_t, 2>& canvas,
                const Calibration* calibration = nullptr);

}  // namespace osprey::tflite
