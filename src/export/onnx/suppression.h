#pragma once
#include "export/onnx/graph.h"
#include "osprey/boxes/non_max_suppression.h"

namespace osprey {

/// Detections of one picture; what lies beyond their number is as a served module fills it.
struct OnnxDetections {
  OnnxValue boxes;    ///< [D, 4]
  OnnxValue scores;   ///< [D]
  OnnxValue classes;  ///< [D], from 1
  OnnxValue count;    ///< [] float32
};

/// The suppression of a served module, for one picture.
///
/// boxes           [A, q, 4] float32, one box for all classes or one for each
/// num_box_columns q
/// scores          [A, C] float32
/// window          [4] float32: the part of the canvas that is picture
/// NaN             in boxes or scores is left to the runtime
/// throws          ConfigError where the options ask for soft suppression, which ONNX does not have
OnnxDetections add_suppression(OnnxGraph& graph, const OnnxValue& boxes, int64_t num_box_columns,
                               const OnnxValue& scores, const OnnxValue& window, const boxes::NmsOptions& options);

}  // namespace osprey
