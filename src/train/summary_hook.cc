#include "osprey/train/summary_hook.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "osprey/base/clock.h"
#include "osprey/eval/draw.h"
#include "osprey/kernels/device.h"
#include "osprey/models/detection_model.h"
#include "train/lagging_copy.h"

namespace osprey::train {
namespace {

constexpr int64_t kImages = 3;

at::Tensor drawn(const Batch& batch, int64_t index, const std::vector<std::string>& class_names) {
  const at::Tensor shape = picture_shapes(batch)[index];
  const int64_t height = shape[0].item<int64_t>(), width = shape[1].item<int64_t>();
  const at::Tensor picture = batch.images[index].slice(1, 0, height).slice(2, 0, width).permute({1, 2, 0});
  std::vector<eval::DrawnBox> boxes;
  const at::Tensor corners = batch.boxes[index].to(at::kCPU, at::kFloat), valid = batch.valid[index].to(at::kCPU);
  // With k-hot labels the first class of a box stands for all.
  at::Tensor classes = batch.classes[index].to(at::kCPU);
  if (classes.dim() == 2) classes = classes.argmax(1);
  for (int64_t i = 0; i < corners.size(0); ++i) {
    if (!valid[i].item<bool>()) continue;
    const at::Tensor box = corners[i];
    const int64_t label = classes[i].item<int64_t>();
    boxes.push_back(
        {{box[0].item<float>(), box[1].item<float>(), box[2].item<float>(), box[3].item<float>()},
         label,
         label < static_cast<int64_t>(class_names.size()) ? class_names[label] : std::to_string(label + 1)});
  }
  return eval::draw_boxes(picture.to(at::kCPU).round().clamp(0, 255).to(at::kByte).contiguous(), boxes,
                          {.max_boxes = 100});
}

}  // namespace

std::vector<at::Tensor> drawn_images(const Batch& batch, const std::vector<std::string>& class_names,
                                     int64_t max_images) {
  std::vector<at::Tensor> result;
  for (int64_t i = 0; i < std::min(batch.size(), max_images); ++i) result.push_back(drawn(batch, i, class_names));
  return result;
}

void write_scalars(eval::EventWriter& events, const LogRecord& record) {
  for (const auto& [tag, value] : record.losses) events.scalar(tag, value, record.step);
  events.scalar("learning_rate", record.learning_rate, record.step);
  events.scalar("gradient_norm", record.gradient_norm, record.step);
  if (record.seconds_per_step > 0) events.scalar("steps_per_sec", 1 / record.seconds_per_step, record.step);
  events.scalar("images_per_sec", record.images_per_second, record.step);
  events.scalar("data_wait", record.data_wait, record.step);
  if (record.skipped_batches > 0)
    events.scalar("skipped_batches", static_cast<double>(record.skipped_batches), record.step);
  events.flush();
}

/// Summaries that are on their way.
struct SummaryHook::Pending {
  int64_t step;
  std::vector<std::string> variables;
  LaggingCopy copy;  ///< histograms of the variables, [V, numbers]; then what `shown` has of the batch

  /// What of a batch is drawn, and a batch that has nothing else.
  static std::vector<at::Tensor> shown(const Batch& batch) {
    return {batch.images, picture_shapes(batch), batch.boxes, batch.valid, batch.classes};
  }
  Batch batch() const {
    const std::vector<at::Tensor>& tensors = copy.tensors();
    Batch result;
    result.images = tensors[1];
    result.true_shapes = tensors[2];
    result.boxes = tensors[3];
    result.valid = tensors[4];
    result.classes = tensors[5];
    return result;
  }
};

SummaryHook::SummaryHook(eval::EventWriter& events, double every_seconds, std::vector<std::string> class_names)
    : events_(events), every_seconds_(every_seconds), class_names_(std::move(class_names)) {}

SummaryHook::~SummaryHook() = default;

void SummaryHook::after_step(const StepEvent& event) {
  if (every_seconds_ <= 0) return;
  if (pending_ && pending_->copy.ready()) write();
  if (now() >= next_) {
    next_ = now() + every_seconds_;
    write();
    begin(event);
  }
  if (!kernels::device::reading_waits(event.batch.images) || event.last) write();
}

void SummaryHook::after_going_back(const TrainState& state) {
  if (pending_ && pending_->step > state.step) pending_.reset();
  write();
}

void SummaryHook::begin(const StepEvent& event) {
  if (!buckets_) buckets_.emplace(event.batch.images.device());
  std::vector<std::string> names;
  std::vector<at::Tensor> histograms;
  for (const auto& [name, tensor] : models::variables(*event.state.model)) {
    if (!tensor.is_floating_point()) continue;
    names.push_back(name);
    histograms.push_back(buckets_->count(tensor));
  }
  std::vector<at::Tensor> tensors = Pending::shown(slice(event.batch, 0, std::min(event.batch.size(), kImages)));
  tensors.insert(tensors.begin(), at::stack(histograms));
  pending_ = std::make_unique<Pending>(Pending{event.state.step, std::move(names), LaggingCopy(tensors)});
}

void SummaryHook::write() {
  if (!pending_) return;
  const std::unique_ptr<Pending> pending = std::move(pending_);
  const at::Tensor& histograms = pending->copy.tensors().front();
  for (size_t i = 0; i < pending->variables.size(); ++i)
    events_.histogram(pending->variables[i], histograms[static_cast<int64_t>(i)], pending->step);
  const auto pictures = drawn_images(pending->batch(), class_names_, kImages);
  for (size_t i = 0; i < pictures.size(); ++i)
    events_.image(i == 0 ? "train_input_images" : "train_input_images/" + std::to_string(i), pictures[i],
                  pending->step);
  events_.flush();
}

}  // namespace osprey::train
