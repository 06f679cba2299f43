#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "osprey/export/exporter.h"

namespace osprey {

/// What a served folder says of itself, in model_card.json.
struct ModelCard {
  std::string model_type;  ///< e.g. "ssd_mobilenet_v1"
  int64_t step = 0;        ///< of the checkpoint
  int64_t batch_size = 1;
  std::string memory_format;                  ///< of the maps inside: "channels_last" or "contiguous"
  int64_t input_height = 0, input_width = 0;  ///< the canvas inside; pictures may have any size
  std::string resizer;                        ///< text format of the image_resizer
  int64_t num_classes = 0;
  int64_t max_detections = 0;
  bool moving_averages = false;
  int64_t parity_images = 0, parity_detections = 0;
  double max_box_difference = 0, max_score_difference = 0;
  std::optional<RoundingReport> rounding = std::nullopt;  ///< where it was rounded to 8 bits after its training
  bool has_onnx = false;                                  ///< whether model.onnx is there, too
  std::optional<std::string> tflite_input =
      std::nullopt;  ///< type of model.tflite's: "float32" or "uint8"; none: no file
};

/// The card as JSON, with the form of inputs and outputs beside the fields above.
std::string to_json(const ModelCard& card);

/// Reads a card.
///
/// throws  DataError naming the file where it is missing or damaged
ModelCard read_model_card(const std::string& file);

}  // namespace osprey
