#include "osprey/train/summary_hook.h"

#include <ATen/ATen.h>

#include "osprey/base/clock.h"
#include "osprey/eval/draw.h"

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
  events.flush();
}

void SummaryHook::after_step(const StepEvent& event) {
  if (every_seconds_ <= 0 || now() < next_) return;
  next_ = now() + every_seconds_;
  for (const auto& [name, tensor] : models::variables(*event.state.model))
    if (tensor.is_floating_point()) events_.histogram(name, tensor.detach(), event.state.step);
  const auto pictures = drawn_images(event.batch, class_names_, kImages);
  for (size_t i = 0; i < pictures.size(); ++i)
    events_.image(i == 0 ? "train_input_images" : "train_input_images/" + std::to_string(i), pictures[i],
                  event.state.step);
  events_.flush();
}

}  // namespace osprey::train
