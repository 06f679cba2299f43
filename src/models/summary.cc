#include "osprey/models/summary.h"

#include <ATen/core/grad_mode.h>

#include "osprey/models/builder.h"
#include "osprey/nn/fake_quantize.h"
#include "osprey/nn/multiply_adds.h"

namespace osprey::models {

Summary summarize_model(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root) {
  const auto model = build_model(root, {.seed = 0, .device = at::kMeta});
  model->eval();
  at::NoGradGuard no_grad;
  Summary summary;
  for (const at::Tensor& parameter : model->parameters()) summary.trainable_parameters += parameter.numel();
  summary.total_parameters = summary.trainable_parameters;
  for (const at::Tensor& buffer : model->buffers())
    if (buffer.is_floating_point()) summary.total_parameters += buffer.numel();  // others count steps
  summary.input_size = model->input_size();
  summary.any_input_size = model->any_input_size();
  const auto image =
      at::empty({1, 3, summary.input_size[0], summary.input_size[1]}, at::TensorOptions(at::kMeta).dtype(at::kFloat));
  const nn::MultiplyAddCounter counter;
  const Predictions predictions = model->predict({image, {}, {}});
  summary.multiply_adds = counter.count();
  const std::vector<int64_t> depths = model->feature_map_depths();
  for (size_t i = 0; i < predictions.feature_map_shapes.size(); ++i) {
    const auto& [height, width] = predictions.feature_map_shapes[i];
    summary.feature_maps.push_back({height, width, i < depths.size() ? depths[i] : 0});
  }
  for (const auto& module : model->modules())
    summary.quantizers += dynamic_cast<const nn::FakeQuantize*>(module.get()) != nullptr;
  summary.num_anchors = predictions.anchors.size(0);
  summary.box_encodings_shape = predictions.box_encodings.sizes().vec();
  summary.class_predictions_shape = predictions.class_logits.sizes().vec();
  return summary;
}

}  // namespace osprey::models
