#pragma once
#include <c10/core/MemoryFormat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/pipeline.h"

namespace osprey {

struct ExportOptions {
  int64_t batch_size = 1;  ///< of the served model; pictures of one batch share their size
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;  ///< of the maps inside; or Contiguous
  bool onnx = true;                                                 ///< write model.onnx as well
  bool tflite = false;                                              ///< write model.tflite as well
  /// Round the network to 8 bits, by the ranges that its values have on so many pictures of train_input_reader.
  bool quantize = false;
  int64_t calibration_images = 100;
  int64_t parity_images = 4;       ///< how many pictures the check takes from eval_input_reader
  double parity_tolerance = 1e-3;  ///< largest difference of a score, or of a coordinate as a fraction of the picture
};

/// How a network that was rounded to 8 bits compares with what it was.
struct RoundingReport {
  int64_t calibration_images = 0;  ///< pictures that gave the ranges
  int64_t detections = 0;          ///< that score half or more without rounding
  int64_t found = 0;  ///< of these, those that the rounded network finds, too: of the class, with an IoU of half
  double mean_score_difference = 0;  ///< of these
};

/// How the file on disk compares with the checkpoint it was made from.
struct ExportReport {
  int64_t images = 0;                                       ///< pictures compared
  int64_t detections = 0;                                   ///< detections compared
  double max_box_difference = 0, max_score_difference = 0;  ///< without the pictures that are left to rounding
  int64_t left_to_rounding =
      0;                    ///< pictures on which they differ, by no more than noise of 1e-5 moves the checkpoint's own
  bool real_images = true;  ///< false: the evaluation records cannot be read, noise was compared instead
  std::optional<RoundingReport> rounding;  ///< where the network was rounded; what is above holds without
  std::string without_onnx;                ///< why there is no model.onnx although it was asked for
  std::string without_tflite;              ///< the same of model.tflite
};

/// Writes a folder that serves a trained model, and checks it:
///   model.pt         TorchScript, loads in Python and C++ without Osprey. Takes uint8 [B, H, W, 3] RGB of any size;
///                    gives a dictionary of floats: num_detections [B], detection_boxes [B, D, 4] (normalised ymin,
///                    xmin, ymax, xmax), detection_scores [B, D], detection_classes [B, D] (ids of the label map,
///                    from 1)
///   model.onnx       the same for ONNX runtimes: input `input_tensor`, outputs of the names above. Passes ONNX's own
///                    checker, but nothing here runs it. Left out where ONNX lacks something, as soft suppression
///   model.tflite     where it is asked for: the same network for TensorFlow Lite, in the form of the original's exports:
///                    takes one picture that is resized, `normalized_input_image_tensor` [1, H, W, 3], float32 as
///                    pixel / 127.5 - 1 or, of a network for 8 bits, uint8; gives `TFLite_Detection_PostProcess`: boxes
///                    [1, D, 4], classes [1, D] from 0, scores [1, D] and their number [1]; of a classifier `scores`
///                    [1, C]. Holds the names of the classes. Nothing here runs it
///   pipeline.config, label_map.pbtxt, model_card.json
/// Resize, normalisation, decoding and suppression are inside the first two; a picture is resized before the third.
/// model.pt is loaded again from disk and must find what the checkpoint finds; the files get their final names only
/// then. With `quantize` the network is rounded after that, whatever its type, and how much it still finds is reported:
/// all three then hold it as it computes with 8 bits.
///
/// The names of the classes are those of an evaluation; where the config's file of them is not there, of the
/// label_map.pbtxt beside the checkpoint.
///
/// checkpoint  file, prefix or folder (its newest); moving averages are exported where eval_config asks for them
/// throws  ConfigError: the config asks for what cannot be exported, the label map has more classes than the model,
///         output_dir is that of a training, or a network that was trained for 8 bits is to be rounded;
///         CheckpointError: config and checkpoint do not fit; DataError: output_dir cannot be written, or there are no
///         pictures to round by; ExportError: the file finds something else
ExportReport export_model(const config::Pipeline& pipeline, const std::string& checkpoint,
                          const std::string& output_dir, const ExportOptions& options = {});

}  // namespace osprey
