#include "osprey/boxes/non_max_suppression.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

#include "boxes/image_suppression.h"
#include "kernels/code_scales.h"
#include "kernels/device/non_max_suppression.h"
#include "kernels/operator.h"
#include "osprey/boxes/geometry.h"
#include "osprey/kernels/box_codes.h"
#include "osprey/kernels/parallel.h"

namespace osprey::boxes {
namespace {

/// [B, 4]: the window of each image, on the device of the boxes.
at::Tensor windows(const at::Tensor& clip_window, const at::Tensor& boxes, int64_t batch, bool combined) {
  const auto for_each_image = [&](const at::Tensor& window) { return window.expand({batch, 4}).contiguous(); };
  if (!clip_window.defined() && combined) return for_each_image(unit_square(boxes.options()));
  if (!clip_window.defined()) {
    const at::Tensor rows = boxes.reshape({-1, 4});
    if (rows.size(0) == 0) return at::zeros({batch, 4}, boxes.options());
    return for_each_image(
        at::cat({std::get<0>(rows.min(0)).narrow(0, 0, 2), std::get<0>(rows.max(0)).narrow(0, 2, 2)}));
  }
  return for_each_image(clip_window.to(at::kFloat));
}

/// With the classes of a row side by side; rows may lie apart, as they do where a background class is left out.
at::Tensor with_near_classes(const at::Tensor& scores) {
  return scores.stride(2) == 1 || scores.size(2) <= 1 ? scores : scores.contiguous();
}

/// The arguments in one block each, with room for the result.
struct Suppression {
  at::Tensor boxes;    ///< [B, A, Q, 4]
  at::Tensor anchors;  ///< [A, 4] where the boxes are codes, else undefined
  kernels::CodeScales scales;
  at::Tensor scores;    ///< [B, A, C], the classes of a row side by side
  at::Tensor windows;   ///< [B, 4]
  at::Tensor num_rows;  ///< [B]
  int64_t B, A, C, Q;
  NmsResult result;
};

void run_loops(const Suppression& s, const NmsOptions& options) {
  const Detections& found = s.result.detections;
  const int64_t D = options.max_total_detections;
  const float *box_data = s.boxes.const_data_ptr<float>(), *score_data = s.scores.const_data_ptr<float>(),
              *window_data = s.windows.const_data_ptr<float>();
  const int64_t* row_data = s.num_rows.const_data_ptr<int64_t>();
  const Output out{found.boxes.data_ptr<float>(), found.scores.data_ptr<float>(), found.classes.data_ptr<int64_t>(),
                   s.result.indices.data_ptr<int64_t>(), found.count.data_ptr<int64_t>()};
  kernels::parallel_for(s.B, [&](int64_t b) {
    const Image image{
        {box_data + b * s.A * s.Q * 4, s.Q, kernels::device::data<const float>(s.anchors), s.scales},
        {score_data + b * s.scores.stride(0), std::clamp<int64_t>(row_data[b], 0, s.A), s.C, s.scores.stride(1)}};
    detect_in_image(
        image, window_data + b * 4, options,
        {out.boxes + b * D * 4, out.scores + b * D, out.classes + b * D, out.indices + b * D, out.count + b});
  });
}

/// The same steps by kernels for devices. Classes of one image do not wait for each other, and nothing is read back.
void run_kernels(const Suppression& s, const NmsOptions& options) {
  namespace device = kernels::device;
  const auto floats = s.boxes.options();
  const auto integers = floats.dtype(at::kInt);
  device::DecodedBoxes boxes{s.boxes.const_data_ptr<float>(), s.A, s.Q};
  at::Tensor scores = s.scores.transpose(1, 2).contiguous(), best_boxes, labels;  // [B, C, A]
  int64_t lists = s.C, limit = options.max_detections_per_class;
  if (options.class_agnostic) {
    const at::Tensor all = std::exchange(scores, at::empty({s.B, s.A}, floats));
    best_boxes = at::empty({s.B, s.A, 4}, floats);
    labels = at::empty({s.B, s.A}, integers);
    device::for_each(s.boxes, s.B * s.A,
                     device::BestClass{boxes, all.const_data_ptr<float>(), s.C, scores.mutable_data_ptr<float>(),
                                       best_boxes.mutable_data_ptr<float>(), labels.mutable_data_ptr<int32_t>()});
    boxes = {best_boxes.const_data_ptr<float>(), s.A, 1};
    lists = 1;
    limit = options.max_total_detections;
  }
  limit = std::clamp<int64_t>(limit, 0, s.A);
  const at::Tensor kept_scores = at::empty({s.B, lists, limit}, floats),
                   kept_rows = at::empty({s.B, lists, limit}, integers), kept_count = at::empty({s.B, lists}, integers);
  const device::KeptOfClasses kept{kept_scores.mutable_data_ptr<float>(), kept_rows.mutable_data_ptr<int32_t>(),
                                   kept_count.mutable_data_ptr<int32_t>()};
  const float* const own_scores = scores.const_data_ptr<float>();
  const int64_t* const num_valid = s.num_rows.const_data_ptr<int64_t>();
  if (options.soft_nms_sigma > 0) {
    const at::Tensor left = at::empty({s.B, lists, s.A}, floats), candidates = at::empty({s.B, lists, s.A}, integers);
    device::launch(s.boxes, s.B * lists,
                   device::FadeClass{boxes, own_scores, num_valid, lists, limit, options.score_threshold,
                                     -0.5f / options.soft_nms_sigma, kept, left.mutable_data_ptr<float>(),
                                     candidates.mutable_data_ptr<int32_t>()});
  } else {
    const at::Tensor corners = at::empty({s.B, lists, limit, sizeof(kernels::Corners) / sizeof(float)}, floats);
    device::launch(s.boxes, s.B * lists,
                   device::SuppressClass{boxes, own_scores, num_valid, lists, limit, options.score_threshold,
                                         options.iou_threshold, kept, device::data<kernels::Corners>(corners)});
  }
  const Detections& found = s.result.detections;
  device::launch(
      s.boxes, s.B,
      device::MergeClasses{boxes, s.windows.const_data_ptr<float>(), device::data<const int32_t>(labels), lists, limit,
                           options.max_total_detections, !options.combined, options.change_coordinate_frame, kept,
                           found.boxes.mutable_data_ptr<float>(), found.scores.mutable_data_ptr<float>(),
                           found.classes.mutable_data_ptr<int64_t>(), s.result.indices.mutable_data_ptr<int64_t>(),
                           found.count.mutable_data_ptr<int64_t>()});
}

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

FiveTensors suppress(const at::Tensor& boxes, const at::Tensor& scores, const std::optional<at::Tensor>& clip_window,
                     const std::optional<at::Tensor>& num_valid, const std::optional<at::Tensor>& anchors,
                     at::ArrayRef<double> scales, double score_threshold, double iou_threshold,
                     int64_t max_detections_per_class, int64_t max_total_detections, double soft_nms_sigma,
                     bool class_agnostic, bool change_coordinate_frame, bool combined, double padding_score) {
  const NmsOptions options{static_cast<float>(score_threshold),
                           static_cast<float>(iou_threshold),
                           max_detections_per_class,
                           max_total_detections,
                           static_cast<float>(soft_nms_sigma),
                           class_agnostic,
                           change_coordinate_frame,
                           combined,
                           static_cast<float>(padding_score)};
  TORCH_CHECK(scores.dim() == 3, "scores must be [B, A, C], got ", scores.sizes());
  const int64_t B = scores.size(0), A = scores.size(1), C = scores.size(2), D = max_total_detections;
  TORCH_CHECK((boxes.dim() == 3 || boxes.dim() == 4) && boxes.size(0) == B && boxes.size(1) == A && boxes.size(-1) == 4,
              "boxes must be [", B, ", ", A, ", (C,) 4], got ", boxes.sizes());
  const int64_t Q = boxes.dim() == 3 ? 1 : boxes.size(2);
  TORCH_CHECK(Q == 1 || Q == C, "boxes must be shared by the classes or one for each of ", C, ", got ", boxes.sizes());
  TORCH_CHECK(clip_window || !change_coordinate_frame, "change_coordinate_frame needs a clip_window");
  TORCH_CHECK(
      !clip_window || clip_window->sizes() == at::IntArrayRef{4} || clip_window->sizes() == at::IntArrayRef({B, 4}),
      "clip_window must be [4] or [", B, ", 4], got ", clip_window->sizes());
  TORCH_CHECK(!num_valid || num_valid->sizes() == at::IntArrayRef({B}), "num_valid must be [", B, "]");
  TORCH_CHECK(A <= std::numeric_limits<int32_t>::max(), "too many boxes: ", A);
  TORCH_CHECK(!anchors || (boxes.dim() == 3 && anchors->sizes() == at::IntArrayRef({A, 4}) &&
                           anchors->scalar_type() == at::kFloat),
              "codes must be [B, A, 4] of float32 anchors [A, 4], got ", boxes.sizes(), " and ", anchors->sizes());
  const auto floats = scores.options().dtype(at::kFloat), integers = scores.options().dtype(at::kLong);
  NmsResult result{{at::zeros({B, D, 4}, floats), at::full({B, D}, options.padding_score, floats),
                    at::zeros({B, D}, integers), at::zeros({B}, integers)},
                   at::zeros({B, D}, integers)};
  if (!scores.is_meta()) {
    at::Tensor whole = boxes.to(at::kFloat).contiguous(), own_anchors = anchors.value_or(at::Tensor());
    const kernels::CodeScales own_scales = anchors ? kernels::code_scales(scales) : kernels::CodeScales();
    const bool loops = kernels::device::takes_loops(scores);
    // On a GPU all are decoded, each once; so it is where the window is that of all boxes.
    if (anchors && !(loops && (clip_window || combined))) {
      whole = kernels::decode_boxes(whole.detach(), own_anchors, own_scales);
      own_anchors = at::Tensor();
    }
    const Suppression arguments{whole,
                                own_anchors.defined() ? own_anchors.contiguous() : own_anchors,
                                own_scales,
                                with_near_classes(scores.to(at::kFloat)),
                                windows(clip_window.value_or(at::Tensor()), whole, B, combined),
                                num_valid ? num_valid->to(at::kLong).contiguous() : at::full({B}, A, integers),
                                B,
                                A,
                                C,
                                Q,
                                result};
    // Only the loops have the order of a heap for equal scores.
    if (loops) {
      run_loops(arguments, options);
    } else {
      run_kernels(arguments, options);
    }
  }
  const Detections& found = result.detections;
  return {found.boxes, found.scores, found.classes, found.count, result.indices};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  kernels::define(library,
                  "batch_non_max_suppression(Tensor boxes, Tensor scores, Tensor? clip_window, Tensor? num_valid, "
                  "Tensor? anchors, float[] scales, float score_threshold, float iou_threshold, int "
                  "max_detections_per_class, int max_total_detections, "
                  "float soft_nms_sigma, bool class_agnostic, bool change_coordinate_frame, bool combined, "
                  "float padding_score) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
                  &suppress);
}

}  // namespace

Kept non_max_suppression(const at::Tensor& boxes, const at::Tensor& scores, int64_t max_output_size,
                         float iou_threshold, float score_threshold, float soft_nms_sigma) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, "boxes must be [N, 4], got ", boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0), "scores must be [", boxes.size(0), "], got ",
              scores.sizes());
  const at::Tensor b = boxes.detach().to(at::kCPU, at::kFloat).contiguous(),
                   s = scores.detach().to(at::kCPU, at::kFloat).contiguous();
  return non_max_suppression(b.data_ptr<float>(), s.data_ptr<float>(), s.size(0), max_output_size, iou_threshold,
                             score_threshold, soft_nms_sigma);
}

NmsResult batch_non_max_suppression(const at::Tensor& boxes, const at::Tensor& scores, const NmsOptions& options,
                                    const at::Tensor& clip_window, const at::Tensor& num_valid,
                                    const BoxCoding* coding) {
  static const auto operation = kernels::find_operator("batch_non_max_suppression", &suppress);
  const auto there = [&](const at::Tensor& given) {
    return given.defined() ? std::optional(given.to(scores.device())) : std::nullopt;
  };
  const auto [found_boxes, found_scores, classes, count, indices] = operation.call(
      boxes.detach(), scores.detach(), there(clip_window), there(num_valid),
      coding != nullptr ? std::optional(coding->anchors) : std::nullopt,
      coding != nullptr ? kernels::numbers(coding->scales) : std::vector<double>(), options.score_threshold,
      options.iou_threshold, options.max_detections_per_class, options.max_total_detections, options.soft_nms_sigma,
      options.class_agnostic, options.change_coordinate_frame, options.combined, options.padding_score);
  return {{found_boxes, found_scores, classes, count}, indices};
}

}  // namespace osprey::boxes
