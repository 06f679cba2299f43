#include "osprey/export/detector.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "export/cpu_convolutions.h"
#include "export/model_card.h"
#include "osprey/base/error.h"
#include "osprey/config/label_map.h"

namespace osprey {
namespace {

torch::jit::Module load_module(const std::string& file, const at::Device& device, int64_t batch_size) {
  if (!std::filesystem::exists(file)) throw DataError(file + ": no such file; a served model's folder holds it");
  try {
    torch::jit::Module module = torch::jit::load(file, device);
    module.eval();
    if (device.is_cpu()) {
      const int64_t height = module.attr("height").toInt(), width = module.attr("width").toInt();
      prepare_for_cpu(module.attr("net").toModule(),
                      at::zeros({batch_size, 3, height, width}).contiguous(at::MemoryFormat::ChannelsLast));
    }
    return module;
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
  mutable torch::jit::Module module;

  Impl(const std::string& where, const std::string& device_name)
      : folder(where),
        device(device_name),
        card(read_model_card(where + "/model_card.json")),
        labels(load_labels(where + "/label_map.pbtxt")),
        module(load_module(where + "/model.pt", device, card.batch_size)) {}

  std::vector<Detection> found(const c10::Dict<c10::IValue, c10::IValue>& output, int64_t row, double min_score) const {
    const auto of = [&](const char* name) { return output.at(name).toTensor()[row].to(at::kCPU).contiguous(); };
    const at::Tensor boxes = of("detection_boxes"), scores = of("detection_scores"), classes = of("detection_classes");
    const int64_t count = static_cast<int64_t>(of("num_detections").item<float>());
    std::vector<Detection> result;
    for (int64_t i = 0; i < count; ++i) {
      Detection detection;
      detection.score = scores.data_ptr<float>()[i];
      if (detection.score < min_score) break;  // best first
      const float* box = boxes.data_ptr<float>() + 4 * i;
      detection.box = {box[0], box[1], box[2], box[3]};
      detection.class_id = static_cast<int64_t>(classes.data_ptr<float>()[i]);
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
    const auto output = impl_->module.forward({at::stack(rows).to(impl_->device)}).toGenericDict();
    for (size_t i = begin; i < end; ++i)
      result.push_back(impl_->found(output, static_cast<int64_t>(i - begin), min_score));
    begin = end;
  }
  return result;
}

}  // namespace osprey
