// From model.ssd to an SsdMetaArch.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "osprey/boxes/builder.h"
#include "osprey/data/image_resizer.h"
#include "osprey/models/ssd_meta_arch.h"
#include "osprey/nn/builder.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/layer.h"
#include "osprey/protos/ssd.pb.h"
#include "osprey/targets/builder.h"

namespace osprey::models {
namespace {

using SsdNode = config::ConfigNode<proto::Ssd>;

void check(const SsdNode& cfg) {
  if (cfg->num_classes() < 1)
    cfg.fail("num_classes", "must be >= 1; without it, a label map of a reader has to say it");
  if (cfg->explicit_background_class()) cfg.unsupported("explicit_background_class");
  if (cfg->has_mask_head_config()) cfg.unsupported("mask_head_config");
}

/// throws  ConfigError where there are convolutions that the network would leave as they are
void check_quantized(const SsdNode& cfg, const nn::FeatureExtractor& extractor) {
  for (const auto& module : extractor.modules()) {
    const auto* convolution = dynamic_cast<const nn::ConvolutionLayer*>(module.get());
    if (convolution == nullptr || convolution->is_quantized()) continue;
    cfg.fail("feature_extractor",
             "quantization of " + cfg->feature_extractor().type() +
                 " is not supported yet: graph_rewriter; --set graph_rewriter= works with the float network");
  }
}

std::shared_ptr<nn::FeatureExtractor> build_extractor(const SsdNode& cfg, const SsdOptions& options,
                                                      const std::optional<nn::Quantization>& quantization) {
  const auto extractor =
      nn::build_feature_extractor(cfg.child("feature_extractor", cfg->feature_extractor()),
                                  {.freeze_batch_norm = cfg->freeze_batchnorm(), .quantization = quantization});
  if (quantization) check_quantized(cfg, *extractor);
  const int64_t smallest = std::min(options.input.size[0], options.input.size[1]);
  if (smallest < extractor->min_image_side())
    cfg.fail("image_resizer", fmt::format("must give at least {} pixels a side for {}, got {}",
                                          extractor->min_image_side(), cfg->feature_extractor().type(), smallest));
  return extractor;
}

/// throws  ConfigError where maps of the pyramid do not fit together for pictures of some size
void check_any_size(const SsdNode& cfg) {
  const auto resizer = data::build_image_resizer(cfg.child("image_resizer", cfg->image_resizer()));
  if (resizer->static_size()) return;
  const nn::ShapesOnly shapes_only;
  const at::NoGradGuard no_gradients;
  const auto extractor = nn::build_feature_extractor(cfg.child("feature_extractor", cfg->feature_extractor()), {});
  extractor->eval();
  for (const data::ImageSize picture : {data::ImageSize{480, 640}, {353, 641}, {641, 353}}) {
    const data::ImageSize size = resizer->canvas_size(picture);
    try {
      extractor->forward(at::empty({1, 3, size.height, size.width}, at::TensorOptions(at::kMeta)), {});
    } catch (const ConfigError& error) {
      cfg.fail("image_resizer", fmt::format("does not bring pictures to one size, and with {} x {} {}", size.height,
                                            size.width, error.what()));
    }
  }
}

std::unique_ptr<DetectionModel> make_ssd(const SsdNode& cfg, const ModelOptions& model) {
  check(cfg);
  const bool keras = cfg->feature_extractor().type().ends_with("_keras");
  SsdOptions options;
  options.num_classes = cfg->num_classes();
  options.input = read_network_input(cfg);
  options.has_background_column = cfg->add_background_class();
  options.normalize_by_num_matches = cfg->normalize_loss_by_num_matches();
  options.normalize_box_loss_by_code_size = cfg->normalize_loc_loss_by_codesize();
  options.use_confidences = cfg->use_confidences_as_targets();
  options.evaluates_confidences = keras;
  options.detection_restores_heads = model.detection_restores_heads;

  std::optional<nn::Quantization> quantization = model.quantization;
  // A batch norm that updates its averages in place ends with an identity, which the original takes for the activation.
  if (quantization) quantization->before_activation = cfg->inplace_batchnorm_update();
  auto extractor = build_extractor(cfg, options, quantization);
  check_any_size(cfg);
  auto anchor_generator = boxes::build_anchor_generator(cfg.child("anchor_generator", cfg->anchor_generator()));
  nn::BoxPredictorOptions head;
  head.num_class_slots = options.num_classes + (cfg->add_background_class() ? 1 : 0);
  head.depths = extractor->depths();
  head.anchors_per_location = anchor_generator->num_anchors_per_location();
  head.freeze_batch_norm = cfg->freeze_batchnorm();
  head.keras = keras;
  head.quantization = quantization;
  if (head.depths.size() != head.anchors_per_location.size())
    cfg.fail("anchor_generator", fmt::format("is made for {} feature maps, but the feature extractor gives {}",
                                             head.anchors_per_location.size(), head.depths.size()));
  auto predictor = nn::build_box_predictor(cfg.child("box_predictor", cfg->box_predictor()), head);
  auto assigner = targets::build_target_assigner(cfg);
  if (predictor->box_code_size() != assigner->coder().code_size())
    cfg.fail("box_predictor", fmt::format("predicts {} values a box, but the box coder has {}",
                                          predictor->box_code_size(), assigner->coder().code_size()));
  return std::make_unique<SsdMetaArch>(
      SsdMetaArch::Parts{std::move(extractor), std::move(predictor), std::move(anchor_generator), std::move(assigner),
                         losses::build_losses(cfg.child("loss", cfg->loss()), model.seed),
                         boxes::build_post_processor(cfg.child("post_processing", cfg->post_processing()))},
      options);
}
OSPREY_REGISTER(DetectionModel, &make_ssd);

}  // namespace
}  // namespace osprey::models
