#pragma once
#include "export/onnx/graph.h"
#include "export/served_module.h"

namespace osprey {

/// Pictures on the canvas, as the network reads them.
struct OnnxCanvas {
  OnnxValue images;         ///< [B, 3, height, width] float32
  OnnxValue height, width;  ///< [] int64: how much of the canvas is picture
};

/// Brings uint8 pictures [B, H, W, 3] of any size to the canvas, with the arithmetic of the script of a served module.
OnnxCanvas add_resize(OnnxGraph& graph, const OnnxValue& pictures, const ServedResize& resize);

}  // namespace osprey
