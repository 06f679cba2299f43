#include "export/parity.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "osprey/base/error.h"
#include "osprey/core/box.h"

namespace osprey {
namespace {

struct Found {
  Box box;
  float score;
  int64_t class_id;  // from 1
};

/// A picture on the canvas, as one image.
Batch batch_of(const models::DetectionModel& model, const data::ImageResizer& resizer, const at::Tensor& image) {
  const auto [height, width] = model.input_size();
  at::Tensor canvas = at::zeros({height, width, 3}, at::kByte);
  const data::ImageSize content = resizer.resize_into(image, canvas);
  Batch batch;
  batch.images = canvas.permute({2, 0, 1}).unsqueeze(0);
  batch.true_shapes = at::tensor({content.height, content.width}, at::kLong).unsqueeze(0);
  return batch;
}

std::vector<Found> found_by_model(models::DetectionModel& model, const Batch& batch) {
  const Detections detections = model.postprocess(model.predict(model.preprocess(batch)), batch.true_shapes);
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

/// The first detection of `from` that has no partner in `in`, in words. The largest differences go to the report.
std::optional<std::string> unmatched(const std::vector<Found>& from, const std::vector<Found>& in, double tolerance,
                                     ExportReport& report) {
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
    } else if (in.empty() || one.score > in.back().score + tolerance) {
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

/// Whether the served network, before suppression, is no further from the model than the model is from itself when
/// noise of 1e-5, some hundred roundings, is added to its normalised pixels.
bool differs_by_rounding(models::DetectionModel& model, torch::jit::Module& served, int64_t batch_size,
                         const Batch& batch) {
  models::ModelInput input = model.preprocess(batch);
  const models::Candidates plain = model.candidates(model.predict(input));
  auto generator = at::detail::createCPUGenerator(/*seed=*/1);
  input.images = input.images + 1e-5 * at::randn(input.images.sizes(), generator, input.images.options());
  const models::Candidates disturbed = model.candidates(model.predict(input));
  const auto images = batch.images.to(at::kFloat).repeat({batch_size, 1, 1, 1});
  const auto outputs =
      served.attr("net")
          .toModule()
          .forward({images.contiguous(at::MemoryFormat::ChannelsLast), batch.true_shapes.repeat({batch_size, 1})})
          .toTuple();
  const auto last = [&](size_t i) { return outputs->elements()[i].toTensor()[batch_size - 1]; };
  return distance(last(0), plain.boxes) <= distance(disturbed.boxes, plain.boxes) &&
         distance(last(1), plain.scores) <= distance(disturbed.scores, plain.scores);
}

}  // namespace

ExportReport compare(models::DetectionModel& model, const data::ImageResizer& resizer, torch::jit::Module& served,
                     int64_t batch_size, const std::vector<at::Tensor>& images, double tolerance) {
  const at::NoGradGuard no_gradients;
  ExportReport report;
  for (size_t picture = 0; picture < images.size(); ++picture) {
    const Batch batch = batch_of(model, resizer, images[picture]);
    const std::vector<Found> by_model = found_by_model(model, batch);
    const std::vector<Found> by_served = found_by_served(served, batch_size, images[picture]);
    ExportReport difference = report;
    const auto missing_in_served = unmatched(by_model, by_served, tolerance, difference),
               missing_in_model = unmatched(by_served, by_model, tolerance, difference);
    ++report.images;
    report.detections += static_cast<int64_t>(by_model.size());
    if (!missing_in_served && !missing_in_model) {
      report.max_box_difference = difference.max_box_difference;
      report.max_score_difference = difference.max_score_difference;
    } else if (differs_by_rounding(model, served, batch_size, batch)) {
      ++report.left_to_rounding;
    } else if (missing_in_served) {
      throw ExportError(fmt::format("picture {}, {} is missing in the exported file", picture, *missing_in_served));
    } else {
      throw ExportError(fmt::format("picture {}, {} is missing in the checkpoint", picture, *missing_in_model));
    }
  }
  return report;
}

}  // namespace osprey
