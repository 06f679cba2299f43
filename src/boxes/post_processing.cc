#include "osprey/boxes/post_processing.h"

#include <ATen/ATen.h>

namespace osprey::boxes {

NmsResult PostProcessor::with_indices(const at::Tensor& boxes, const at::Tensor& logits, bool has_background,
                                      const at::Tensor& clip_window, const BoxCoding* coding) const {
  TORCH_CHECK(logits.dim() == 3 && logits.size(2) > (has_background ? 1 : 0), "class logits must be [B, A, C], got ",
              logits.sizes());
  at::Tensor scores = convert_scores(logits.detach(), scores_);
  if (has_background) scores = scores.narrow(-1, 1, scores.size(-1) - 1);
  return batch_non_max_suppression(boxes, scores, nms_, clip_window, /*num_valid=*/{}, coding);
}

Detections PostProcessor::operator()(const at::Tensor& boxes, const at::Tensor& logits, bool has_background,
                                     const at::Tensor& clip_window, const BoxCoding* coding) const {
  return with_indices(boxes, logits, has_background, clip_window, coding).detections;
}

at::Tensor true_image_windows(const at::Tensor& true_shapes, int64_t canvas_height, int64_t canvas_width) {
  TORCH_CHECK(true_shapes.dim() == 2 && true_shapes.size(1) >= 2, "true_shapes must be [B, 2], got ",
              true_shapes.sizes());
  const at::Tensor shapes = true_shapes.to(at::kFloat);
  const at::Tensor ymax = shapes.select(1, 0) / static_cast<double>(canvas_height),
                   xmax = shapes.select(1, 1) / static_cast<double>(canvas_width);
  return at::stack({at::zeros_like(ymax), at::zeros_like(xmax), ymax, xmax}, 1);
}

}  // namespace osprey::boxes
