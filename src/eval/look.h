#pragma once
#include <cstdint>
#include <optional>

#include "osprey/boxes/tiles.h"
#include "osprey/core/batch.h"
#include "osprey/core/detections.h"
#include "osprey/core/predictions.h"
#include "osprey/eval/evaluator.h"
#include "osprey/models/detection_model.h"

namespace osprey::eval {

/// What a model finds on a batch.
struct Look {
  Predictions predictions;
  Detections detections;      ///< on the CPU
  int64_t broken_images = 0;  ///< for which the network gave a score that is NaN or infinite
};

/// on_device  the batch, where the model is
Look look_at(models::DetectionModel& model, const Batch& on_device);

/// The detections that something else than a model finds on a picture, as a whole or in tiles.
/// picture  a batch of one, of its own size, on the CPU
/// throws   as `find` and `boxes::tiles_px`, with the picture's id
Look look_by(const boxes::Find& find, const Batch& picture, const std::optional<boxes::TileOptions>& tiles);

/// The detections on a picture that the model is shown in tiles, and how many pictures, 0 or 1, are broken.
/// picture  a batch of one, of its own size, on the CPU
/// throws   as `boxes::tiles_px`, with the picture's id
Look look_in_tiles(models::DetectionModel& model, const Batch& picture, const TiledPictures& tiled,
                   const c10::Device& device);

}  // namespace osprey::eval
