#include "osprey/export/detector.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "export/cpu_convolutions.h"
#include "export/cpu_roundings.h"
#include "export/model_card.h"
#include "export/served_module.h"
#include "osprey/base/error.h"
#include "osprey/boxes/non_max_suppression.h"
#include "osprey/boxes/post_processing.h"
#include "osprey/config/label_map.h"
#include "osprey/core/detections.h"

namespace osprey {
namespace {

/// What a file serves, and the suppression that is part of it.
struct Served {
  torch::jit::Module module;
  boxes::NmsOptions nms;
};

/// Weights for 8 bits are in a file as they were before they are rounded: once will do.
void round_weights(const torch::jit::Module& network) {
  const at::NoGradGuard no_gradients;
  std::shared_ptr<torch::jit::Graph> graph = network.get_method("forward").graph();
  torch::jit::ConstantPropagation(graph);
}

Served load_served(const std::string& file, const at::Device& device, int64_t batch_size) {
  if (!std::filesystem::exists(file)) throw DataError(file + ": no such file; a served model's folder holds it");
  try {
    torch::jit::Module module = torch::jit::load(file, device);
    module.eval();
    const boxes::NmsOptions nms = served_nms_options(module);
    round_weights(module.attr("net").toModule());
    if (device.is_cpu()) {
      const int64_t height = module.attr("height").toInt(), width = module.attr("width").toInt();
      const at::Tensor images = at::zeros({batch_size, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
      prepare_for_cpu(module.attr("net").toModule(), images);
      prepare_roundings_for_cpu(module.attr("net").toModule(), images);
    }
    return {module, nms};
  } catch (const c10::Error& error) {
    throw DataError(file + ": cannot be loaded: " + error.what_without_backtrace());
  } catch (const std::exception& error) {  // of the convolution library
    throw DataError(file + ": cannot be loaded: " + error.what());
  }
}

config::LabelMap load_labels(const std::string& file) {
  try {
    return config::load_label_map(file);
  } catch (const ConfigError& error) {  // it is part of the served folder, not of a config
    throw DataError(error.what());
  }
}

}  // namespace

struct Detector::Impl {
  std::string folder;
  at::Device device;
  ModelCard card;
  config::LabelMap labels;
  mutable Served served;

  Impl(const std::string& where, const std::string& device_name)
      : folder(where),
        device(device_name),
        card(read_model_card(where + "/model_card.json")),
        labels(load_labels(where + "/label_map.pbtxt")),
        served(load_served(where + "/model.pt", device, card.batch_size)) {}

  /// images  [B, H, W, 3] uint8
  Detections run(const at::Tensor& images) const { return device.is_cpu() ? run_in_parts(images) : run_whole(images); }

  Detections run_whole(const at::Tensor& images) const {
    const auto output = served.module.forward({images.to(device)}).toGenericDict();
    const auto of = [&](const char* name) { return output.at(name).toTensor().to(at::kCPU); };
    return {of("detection_boxes"), of("detection_scores"), of("detection_classes").to(at::kLong) - 1,
            of("num_detections").to(at::kLong)};
  }

  /// The same on a CPU, where the suppression of a model in training is faster than that of the file, which is made of
  /// libtorch's operations.
  Detections run_in_parts(const at::Tensor& images) const {
    const auto resized = served.module.get_method("resize")({images}).toTuple();
    const auto side = [&](size_t i) { return resized->elements()[i].toInt(); };
    const at::Tensor canvas = resized->elements()[0].toTensor(),
                     shapes = at::tensor({side(1), side(2)}, at::kLong).repeat({images.size(0), 1});
    const auto candidates = served.module.attr("net").toModule().forward({canvas, shapes}).toTuple();
    const at::Tensor boxes = candidates->elements()[0].toTensor(), scores = candidates->elements()[1].toTensor();
    return boxes::batch_non_max_suppression(boxes.size(2) == 1 ? boxes.squeeze(2) : boxes, scores, served.nms,
                                            boxes::true_image_windows(shapes, canvas.size(2), canvas.size(3)))
        .detections;
  }

  std::vector<Detection> found(const Detections& all, int64_t row, double min_score) const {
    const at::Tensor boxes = all.boxes[row].contiguous(), scores = all.scores[row].contiguous(),
                     classes = all.classes[row].contiguous();
    const auto count = all.count[row].item<int64_t>();
    std::vector<Detection> result;
    for (int64_t i = 0; i < count; ++i) {
      Detection detection;
      detection.score = scores.data_ptr<float>()[i];
      if (detection.score < min_score) break;  // best first
      const float* box = boxes.data_ptr<float>() + 4 * i;
      detection.box = {box[0], box[1], box[2], box[3]};
      detection.class_id = classes.data_ptr<int64_t>()[i] + 1;
      const auto* item = labels.find(static_cast<int>(detection.class_id));
      detection.class_name = item ? item->shown() : std::to_string(detection.class_id);
      result.push_back(std::move(detection));
    }
    return result;
  }
};

Detector::Detector(const std::string& folder, const std::string& device)
    : impl_(std::make_unique<Impl>(folder, device)) {}
Detector::~Detector() = default;
Detector::Detector(Detector&&) noexcept = default;

int64_t Detector::batch_size() const { return impl_->card.batch_size; }
int64_t Detector::step() const { return impl_->card.step; }

std::vector<Detection> Detector::detect(const at::Tensor& image, double min_score) const {
  return detect(std::vector<at::Tensor>{image}, min_score).front();
}

std::vector<std::vector<Detection>> Detector::detect(const std::vector<at::Tensor>& images, double min_score) const {
  const c10::InferenceMode no_gradients;
  std::vector<std::vector<Detection>> result;
  for (size_t begin = 0; begin < images.size();) {
    std::vector<at::Tensor> rows;
    size_t end = begin;
    for (; end < images.size() && end - begin < static_cast<size_t>(batch_size()); ++end) {
      TORCH_CHECK(images[end].dim() == 3 && images[end].size(2) == 3 && images[end].scalar_type() == at::kByte,
                  "image must be [H, W, 3] uint8, is ", images[end].sizes(), " ", images[end].scalar_type());
      if (images[end].sizes() != images[begin].sizes()) break;
      rows.push_back(images[end]);
    }
    rows.resize(batch_size(), rows.back());  // the batch has its fixed size; what fills it up is not looked at
    const Detections all = impl_->run(at::stack(rows));
    for (size_t i = begin; i < end; ++i)
      result.push_back(impl_->found(all, static_cast<int64_t>(i - begin), min_score));
    begin = end;
  }
  return result;
}

}  // namespace osprey
