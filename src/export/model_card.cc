#include "export/model_card.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "export/onnx/graph.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"

namespace osprey {
std::string to_json(const ModelCard& card) {
  nlohmann::ordered_json json;
  json["format"] = "TorchScript";
  if (card.has_onnx) json["onnx"] = {{"file", "model.onnx"}, {"opset", kOnnxOpset}};
  if (card.tflite_input)
    json["tflite"] = {{"file", "model.tflite"},
                      {"input",
                       {{"name", "normalized_input_image_tensor"},
                        {"type", *card.tflite_input},
                        {"layout", "NHWC, RGB"},
                        {"values", *card.tflite_input == "uint8" ? "pixels" : "pixel / 127.5 - 1"}}}};
  json["osprey_version"] = OSPREY_VERSION;
  json["model_type"] = card.model_type;
  json["step"] = card.step;
  json["moving_averages"] = card.moving_averages;
  json["num_classes"] = card.num_classes;
  json["input"] = {{"name", "input_tensor"},
                   {"type", "uint8"},
                   {"layout", "NHWC, RGB"},
                   {"batch_size", card.batch_size},
                   {"picture_size", "any; pictures of one batch share it"}};
  json["memory_format"] = card.memory_format;
  json["preprocessing"] = {{"where", "inside the model"},
                           {"height", card.input_height},
                           {"width", card.input_width},
                           {"image_resizer", card.resizer}};
  json["output"] = {{"max_detections", card.max_detections},
                    {"num_detections", "float [B]"},
                    {"detection_boxes", "float [B, D, 4]: ymin, xmin, ymax, xmax, fractions of the picture"},
                    {"detection_scores", "float [B, D]"},
                    {"detection_classes", "float [B, D]: ids of label_map.pbtxt, from 1"}};
  if (const auto& rounding = card.rounding)
    json["quantization"] = {{"bits", 8},
                            {"calibration_images", rounding->calibration_images},
                            {"detections", rounding->detections},
                            {"found", rounding->found},
                            {"mean_score_difference", rounding->mean_score_difference}};
  json["parity"] = {{"images", card.parity_images},
                    {"detections", card.parity_detections},
                    {"max_box_difference", card.max_box_difference},
                    {"max_score_difference", card.max_score_difference}};
  return json_text(json, 2) + "\n";
}

ModelCard read_model_card(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw DataError(file + ": cannot be read; a served model's folder holds it beside model.pt");
  try {
    const nlohmann::json json = nlohmann::json::parse(in);
    ModelCard card;
    card.model_type = json.at("model_type");
    card.step = json.at("step");
    card.moving_averages = json.at("moving_averages");
    card.num_classes = json.at("num_classes");
    card.batch_size = json.at("input").at("batch_size");
    if (card.batch_size < 1)
      throw DataError(fmt::format("{}: input.batch_size must be >= 1, found {}", file, card.batch_size));
    card.memory_format = json.value("memory_format", "channels_last");  // cards of earlier versions do not name it
    card.input_height = json.at("preprocessing").at("height");
    card.input_width = json.at("preprocessing").at("width");
    card.resizer = json.at("preprocessing").at("image_resizer");
    card.max_detections = json.at("output").at("max_detections");
    card.parity_images = json.at("parity").at("images");
    card.parity_detections = json.at("parity").at("detections");
    card.max_box_difference = json.at("parity").at("max_box_difference");
    card.max_score_difference = json.at("parity").at("max_score_difference");
    if (json.contains("quantization")) {
      const nlohmann::json& rounding = json.at("quantization");
      card.rounding = {rounding.at("calibration_images"), rounding.at("detections"), rounding.at("found"),
                       rounding.at("mean_score_difference")};
    }
    card.has_onnx = json.contains("onnx");
    if (json.contains("tflite")) card.tflite_input = json.at("tflite").at("input").at("type").get<std::string>();
    return card;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(file + ": is no model card: " + error.what());
  }
}

}  // namespace osprey
