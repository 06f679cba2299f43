#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osprey/core/box.h"

namespace osprey::eval {

/// A box to be drawn.
struct DrawnBox {
  Box box;                                           ///< normalised to the picture
  int64_t class_index = 0;                           ///< chooses the colour
  std::string label = {};                            ///< "" draws the box alone
  double score = -1;                                 ///< below 0: no score (ground truth)
  std::optional<std::array<uint8_t, 3>> color = {};  ///< RGB, in place of the class's
};

struct DrawOptions {
  int max_boxes = 20;      ///< best scores first
  double min_score = 0.5;  ///< boxes with a score below are left out; boxes without a score never are
  bool show_labels = true;
  bool show_scores = true;  ///< in per cent behind the label
};

/// The colour of a class, RGB; neighbours differ, light enough for black text.
std::array<uint8_t, 3> class_color(int64_t class_index);

/// A copy of the picture with boxes and captions; line and letter size follow the picture's.
///
/// image   [H, W, 3] uint8 RGB on the CPU
/// throws  c10::Error for another shape or type
at::Tensor draw_boxes(const at::Tensor& image, const std::vector<DrawnBox>& boxes, const DrawOptions& options = {});

/// Two pictures beside each other, a thin line between them; both are [H, W, 3] uint8 of the same size.
at::Tensor side_by_side(const at::Tensor& left, const at::Tensor& right);

/// The picture at another size, for looking at: averaged where it shrinks, bilinear where it grows. Networks are fed by
/// `data/resize.h`.
at::Tensor resize_for_view(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace osprey::eval
