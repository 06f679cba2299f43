#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "osprey/config/node.h"

namespace osprey::protos {
class TrainEvalPipelineConfig;
}

namespace osprey::models {

/// The shape of a model, worked out by sending one blank image through it on the CPU.
struct Summary {
  int64_t trainable_parameters = 0;
  int64_t total_parameters = 0;                      ///< with the moving averages of batch norm
  int64_t multiply_adds = 0;                         ///< of all convolutions, for one image
  std::array<int64_t, 2> input_size = {0, 0};        ///< height and width; usual ones
  bool any_input_size = false;                       ///< where each batch has a size of its own
  std::vector<std::array<int64_t, 3>> feature_maps;  ///< height, width, depth; finest first
  int64_t num_anchors = 0;
  int64_t quantizers = 0;                        ///< tensors that are rounded to 8 bits, weights and maps
  std::vector<int64_t> box_encodings_shape;      ///< [1, A, K]
  std::vector<int64_t> class_predictions_shape;  ///< [1, A, C (+ 1)]
};

/// throws ConfigError as `build_model` does
Summary summarize_model(const config::ConfigNode<protos::TrainEvalPipelineConfig>& root);

}  // namespace osprey::models
