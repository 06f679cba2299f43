#pragma once
#include <torch/csrc/jit/api/module.h>

#include <cstdint>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/models/detection_model.h"
#include "osprey/protos/image_resizer.pb.h"

namespace osprey {

struct Calibration;

/// How pictures of any size reach the canvas; read from an image_resizer message.
struct ServedResize {
  int64_t height = 0, width = 0;                 ///< the canvas
  int64_t min_dimension = 0, max_dimension = 0;  ///< of a resizer that keeps the aspect ratio; 0 for one that does not
};

/// A TorchScript module that does what resizer and model do together, from uint8 pictures to detections; see
/// `export_model` for its inputs and outputs. The model must be in evaluation mode; its weights become constants, batch
/// norms after convolutions are folded into them.
/// memory_format  of the maps inside: channels_last or contiguous
/// calibration    by which the network is rounded to 8 bits; null: it is left as it was trained
torch::jit::Module served_module(models::DetectionModel& model, const ServedResize& resize, int64_t batch_size,
                                 at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast,
                                 const Calibration* calibration = nullptr);

/// How a served module resizes, and the suppression that it does, as it says itself.
/// throws  c10::Error where the module is another one
ServedResize served_resize(const torch::jit::Module& served);
boxes::NmsOptions served_nms_options(const torch::jit::Module& served);

}  // namespace osprey
