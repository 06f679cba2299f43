#include "osprey/models/builder.h"

#include "osprey/config/resolve.h"
#include "osprey/nn/layer.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::models {
namespace {

std::optional<nn::Quantization> read_quantization(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root) {
  if (!config::trains_for_8_bits(*root)) return {};
  const auto rewriter = root.child("graph_rewriter", root->graph_rewriter());
  const auto node = rewriter.child("quantization", rewriter->quantization());
  if (node->weight_bits() != 8) node.fail("weight_bits", "must be 8");
  if (node->activation_bits() != 8) node.fail("activation_bits", "must be 8");
  return nn::Quantization{.delay = node->delay(), .weights_per_channel = node->weights_per_channel()};
}

}  // namespace

std::shared_ptr<DetectionModel> build_model(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root,
                                            const BuildOptions& options) {
  const auto node = root.child("model", root->model());
  const uint64_t seed = options.seed.value_or(root->train_config().seed());
  const ModelOptions model_options{
      .detection_restores_heads = root->train_config().load_all_detection_checkpoint_vars(),
      .seed = seed,
      .quantization = read_quantization(root)};
  const auto build = [&] { return DetectionModel::Registry::instance().build(node, "model", model_options); };
  if (options.device.is_meta()) {
    const nn::ShapesOnly shapes_only;
    return build();
  }
  std::shared_ptr<DetectionModel> model = build();
  nn::initialize_model(*model, seed);
  if (!options.device.is_cpu()) model->to(options.device);
  return model;
}

}  // namespace osprey::models
