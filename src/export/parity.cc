#include "export/parity.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "export/pictures.h"
#include "export/served_module.h"
#include "kernels/arithmetic/overlap.h"
#include "osprey/base/error.h"
#include "osprey/boxes/non_max_suppression.h"
#include "osprey/boxes/post_processing.h"
#include "osprey/core/box.h"
#include "osprey/nn/convolution.h"

namespace osprey {
namespace {

struct Found {
  Box box;
  float score;
  int64_t class_id;  // from 1
};

std::vector<Found> listed(const Detections& detections) {
  std::vector<Found> result;
  const int64_t count = detections.count.item<int64_t>();
  const at::Tensor boxes = detections.boxes[0].contiguous();
  for (int64_t i = 0; i < count; ++i) {
    const float* box = boxes.data_ptr<float>() + 4 * i;
    result.push_back({{box[0], box[1], box[2], box[3]},
                      detections.scores[0][i].item<float>(),
                      detections.classes[0][i].item<int64_t>() + 1});
  }
  return result;
}

std::vector<Found> found_by_model(models::DetectionModel& model, const Batch& batch) {
  return listed(model.postprocess(model.predict(model.preprocess(batch)), batch.true_shapes));
}

std::vector<Found> found_by_served(torch::jit::Module& served, int64_t batch_size, const at::Tensor& image) {
  const auto output = served.forward({image.unsqueeze(0).repeat({batch_size, 1, 1, 1})}).toGenericDict();
  const auto last = [&](const char* name) { return output.at(name).toTensor()[batch_size - 1].contiguous(); };
  const at::Tensor boxes = last("detection_boxes"), scores = last("detection_scores"),
                   classes = last("detection_classes");
  std::vector<Found> result;
  const int64_t count = static_cast<int64_t>(last("num_detections").item<float>());
  for (int64_t i = 0; i < count; ++i) {
    const float* box = boxes.data_ptr<float>() + 4 * i;
    result.push_back({{box[0], box[1], box[2], box[3]},
                      scores.data_ptr<float>()[i],
                      static_cast<int64_t>(classes.data_ptr<float>()[i])});
  }
  return result;
}

double box_difference(const Box& a, const Box& b) {
  return std::max(
      {std::abs(a.ymin - b.ymin), std::abs(a.xmin - b.xmin), std::abs(a.ymax - b.ymax), std::abs(a.xmax - b.xmax)});
}

double overlap(const Box& a, const Box& b) {
  return kernels::matching_overlap(kernels::corners(&a.ymin), kernels::corners(&b.ymin));
}

/// Whether a detection may be missing in `in` since it scores no more than what a list or a class of it ends with.
bool may_be_cut_off(const Found& one, const std::vector<Found>& in, const boxes::NmsOptions& nms, double tolerance) {
  if (one.score <= nms.score_threshold + tolerance) return true;
  int64_t of_class = 0;
  float last_of_class = INFINITY, last = INFINITY;
  for (const Found& other : in) {
    last = std::min(last, other.score);
    if (other.class_id != one.class_id) continue;
    ++of_class;
    last_of_class = std::min(last_of_class, other.score);
  }
  const bool full = static_cast<int64_t>(in.size()) >= nms.max_total_detections,
             class_full = !nms.class_agnostic && of_class >= nms.max_detections_per_class;
  return (full && one.score <= last + tolerance) || (class_full && one.score <= last_of_class + tolerance);
}

/// The first detection of `from` that has no partner in `in`, in words. The largest differences go to the report.
std::optional<std::string> unmatched(const std::vector<Found>& from, const std::vector<Found>& in,
                                     const boxes::NmsOptions& nms, double tolerance, ExportReport& report) {
  for (size_t i = 0; i < from.size(); ++i) {
    const Found& one = from[i];
    double best_box = INFINITY, best_score = INFINITY;
    for (const Found& other : in) {
      const double box = box_difference(one.box, other.box), score = std::abs(one.score - other.score);
      if (other.class_id == one.class_id && score <= tolerance && box < best_box) best_box = box, best_score = score;
    }
    if (best_box <= tolerance) {
      report.max_box_difference = std::max(report.max_box_difference, best_box);
      report.max_score_difference = std::max(report.max_score_difference, best_score);
    } else if (!may_be_cut_off(one, in, nms, tolerance)) {
      return fmt::format("detection {} (class {}, score {:.6f}, box [{:.5f}, {:.5f}, {:.5f}, {:.5f}])", i, one.class_id,
                         one.score, one.box.ymin, one.box.xmin, one.box.ymax, one.box.xmax);
    }
  }
  return std::nullopt;
}

/// Root of the mean squared difference.
double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.reshape(-1).to(at::kDouble) - b.reshape(-1).to(at::kDouble)).square().mean().sqrt().item<double>();
}

/// What the served network makes of the last of some pictures on the canvas, before suppression.
models::Candidates served_candidates(torch::jit::Module& served, const at::Tensor& images, const at::Tensor& shapes) {
  const auto outputs =
      served.attr("net").toModule().forward({images.contiguous(at::MemoryFormat::ChannelsLast), shapes}).toTuple();
  const auto last = [&](size_t i) { return outputs->elements()[i].toTensor().slice(0, -1); };
  return {last(0), last(1)};
}

/// Whether a network was trained for 8 bits.
bool is_quantized(const models::DetectionModel& model) {
  const auto modules = model.modules();
  return std::ranges::any_of(modules, [](const auto& module) {
    const auto* convolution = dynamic_cast<const nn::ConvolutionLayer*>(module.get());
    return convolution != nullptr && convolution->is_quantized();
  });
}

/// Whether what the served network makes is no further from what the model makes than the latter is from itself when
/// noise of 1e-5, some hundred roundings, is added to its normalised pixels. Of a network that was trained for 8 bits
/// either distance is that of the few values that fell to the other side of a border, and so a matter of luck: from
/// picture to picture the one was 0.14 to 2.1 times the other.
bool differs_by_rounding(models::DetectionModel& model, torch::jit::Module& served_module, int64_t batch_size,
                         const Batch& batch) {
  const models::Candidates served =
      served_candidates(served_module, batch.images.to(at::kFloat).repeat({batch_size, 1, 1, 1}),
                        batch.true_shapes.repeat({batch_size, 1}));
  models::ModelInput input = model.preprocess(batch);
  const models::Candidates plain = model.candidates(model.predict(input));
  auto generator = at::detail::createCPUGenerator(/*seed=*/1);
  input.images = input.images + 1e-5 * at::randn(input.images.sizes(), generator, input.images.options());
  const models::Candidates disturbed = model.candidates(model.predict(input));
  const double luck = is_quantized(model) ? 4 : 1;
  return distance(served.boxes, plain.boxes) <= luck * distance(disturbed.boxes, plain.boxes) &&
         distance(served.scores, plain.scores) <= luck * distance(disturbed.scores, plain.scores);
}

/// Whether the list is what the model's suppression makes of the served network's candidates.
bool suppresses_alike(const models::DetectionModel& model, torch::jit::Module& served, int64_t batch_size,
                      const at::Tensor& image, const std::vector<Found>& by_served) {
  constexpr double kTolerance = 1e-5;  // what rounding makes of the coordinates of the same box
  const auto resized = served.get_method("resize")({image.unsqueeze(0).repeat({batch_size, 1, 1, 1})}).toTuple();
  const auto& [images, h, w] = std::tie(resized->elements()[0], resized->elements()[1], resized->elements()[2]);
  const at::Tensor shape = at::tensor({h.toInt(), w.toInt()}, at::kLong).unsqueeze(0);
  const models::Candidates candidates = served_candidates(served, images.toTensor(), shape.repeat({batch_size, 1}));
  const boxes::NmsOptions& nms = model.nms_options();
  const ServedResize size = served_resize(served);
  const std::vector<Found> expected =
      listed(boxes::batch_non_max_suppression(candidates.boxes, candidates.scores, nms,
                                              boxes::true_image_windows(shape, size.height, size.width))
                 .detections);
  ExportReport ignored;
  return !unmatched(expected, by_served, nms, kTolerance, ignored) &&
         !unmatched(by_served, expected, nms, kTolerance, ignored);
}

}  // namespace

ExportReport compare(models::DetectionModel& model, const data::ImageResizer& resizer, torch::jit::Module& served,
                     int64_t batch_size, const std::vector<at::Tensor>& images, double tolerance) {
  const at::NoGradGuard no_gradients;
  ExportReport report;
  for (size_t picture = 0; picture < images.size(); ++picture) {
    const Batch batch = on_canvas(served_resize(served), resizer, images[picture]);
    const std::vector<Found> by_model = found_by_model(model, batch);
    const std::vector<Found> by_served = found_by_served(served, batch_size, images[picture]);
    ExportReport difference = report;
    const boxes::NmsOptions& nms = model.nms_options();
    const auto missing_in_served = unmatched(by_model, by_served, nms, tolerance, difference),
               missing_in_model = unmatched(by_served, by_model, nms, tolerance, difference);
    ++report.images;
    report.detections += static_cast<int64_t>(by_model.size());
    if (!missing_in_served && !missing_in_model) {
      report.max_box_difference = difference.max_box_difference;
      report.max_score_difference = difference.max_score_difference;
    } else if (differs_by_rounding(model, served, batch_size, batch) &&
               suppresses_alike(model, served, batch_size, images[picture], by_served)) {
      ++report.left_to_rounding;
    } else if (missing_in_served) {
      throw ExportError(fmt::format("picture {}, {} is missing in the exported file", picture, *missing_in_served));
    } else {
      throw ExportError(fmt::format("picture {}, {} is missing in the checkpoint", picture, *missing_in_model));
    }
  }
  return report;
}

RoundingReport agreement(models::DetectionModel& model, const data::ImageResizer& resizer, torch::jit::Module& served,
                         int64_t batch_size, const std::vector<at::Tensor>& images) {
  constexpr float kSure = 0.5f, kOverlap = 0.5f;
  const at::NoGradGuard no_gradients;
  RoundingReport report;
  for (const at::Tensor& image : images) {
    std::vector<Found> rounded = found_by_served(served, batch_size, image);
    for (const Found& one : found_by_model(model, on_canvas(served_resize(served), resizer, image))) {
      if (one.score < kSure) continue;
      ++report.detections;
      const auto same = std::ranges::find_if(rounded, [&](const Found& other) {
        return other.class_id == one.class_id && overlap(one.box, other.box) >= kOverlap;
      });
      if (same == rounded.end()) continue;
      ++report.found;
      report.mean_score_difference += std::abs(one.score - same->score);
      rounded.erase(same);
    }
  }
  if (report.found > 0) report.mean_score_difference /= static_cast<double>(report.found);
  return report;
}

}  // namespace osprey
