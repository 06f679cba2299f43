#include "osprey/models/detection_model.h"

#include <ATen/ATen.h>

#include "osprey/nn/batch_norm.h"
#include "osprey/nn/fake_quantize.h"
#include "osprey/nn/layer.h"

namespace osprey::models {
namespace {

template <class Action>
void for_each_layer(const torch::nn::Module& model, Action action) {
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* layer = dynamic_cast<nn::Layer*>(module.get())) action(*layer);
}

}  // namespace

at::Tensor DetectionModel::regularization_loss() {
  const at::Tensor loss = nn::regularization_loss(regularized_weights());
  return loss.defined() ? loss : at::zeros({}, parameters().front().options().requires_grad(false));
}

std::vector<nn::RegularizedWeight> DetectionModel::regularized_weights() const {
  return nn::regularized_weights(*this);
}

void DetectionModel::commit_statistics(const at::Tensor& proceed) {
  std::vector<nn::BatchNorm*> batch_norms;
  std::vector<nn::FakeQuantize*> quantizers;
  for_each_layer(*this, [&](nn::Layer& layer) {
    if (auto* batch_norm = dynamic_cast<nn::BatchNorm*>(&layer)) batch_norms.push_back(batch_norm);
    if (auto* quantizer = dynamic_cast<nn::FakeQuantize*>(&layer)) quantizers.push_back(quantizer);
  });
  nn::BatchNorm::commit(batch_norms, proceed);
  nn::FakeQuantize::commit(quantizers, proceed);
}

void DetectionModel::discard_statistics() {
  for_each_layer(*this, [](nn::Layer& layer) { layer.discard_statistics(); });
}

std::vector<std::pair<std::string, at::Tensor>> variables(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& item : model.named_parameters()) result.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace osprey::models
