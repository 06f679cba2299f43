// From model.image_classifier to an ImageClassifier.
#include <fmt/format.h>

#include <algorithm>

#include "osprey/data/image_resizer.h"
#include "osprey/models/image_classifier.h"
#include "osprey/protos/image_classifier.pb.h"

namespace osprey::models {
namespace {

/// What the network is shown in training and evaluation.
NetworkInputOptions read_input(const config::ConfigNode<proto::ImageClassifier>& cfg) {
  NetworkInputOptions options = read_network_input(cfg);
  // The mean over a map would depend on how large the other pictures of a batch are.
  if (options.any_size)
    cfg.fail("image_resizer",
             "must bring all pictures to one size: fixed_shape_resizer, or keep_aspect_ratio_resizer with "
             "pad_to_max_dimension: true");
  if (!cfg->has_evaluation_image_resizer()) return options;
  const auto resizer = data::build_image_resizer_of(cfg, data::ResizerUse::kEvaluation);
  const auto size = resizer->static_size();
  if (options.has_padding)
    cfg.fail("image_resizer", "must bring all pictures to one size without padding beside evaluation_image_resizer");
  if (!size || resizer->may_leave_padding() || resizer->channels() != 3)
    cfg.fail("evaluation_image_resizer", "must bring all pictures to one size in colour, without padding");
  if (size->height < options.size[0] || size->width < options.size[1])
    cfg.fail("evaluation_image_resizer",
             fmt::format("must make at least the {} x {} pixels that the network sees, got {} x {}", options.size[0],
                         options.size[1], size->height, size->width));
  options.sees_middle = true;
  return options;
}

std::unique_ptr<DetectionModel> make_image_classifier(const config::ConfigNode<proto::ImageClassifier>& cfg,
                                                      const ModelOptions& model) {
  if (cfg->num_classes() < 2)
    cfg.fail("num_classes", cfg->num_classes() == 1
                                ? "must be >= 2, got 1: there is nothing to tell apart"
                                : "must be >= 2; without it, a label map of a reader has to say it");
  const double smoothing = cfg->label_smoothing(), keep = cfg->dropout_keep_probability();
  if (!(smoothing >= 0 && smoothing < 1))
    cfg.fail("label_smoothing", fmt::format("must be in [0, 1), got {}", smoothing));
  if (!(keep > 0 && keep <= 1)) cfg.fail("dropout_keep_probability", fmt::format("must be in (0, 1], got {}", keep));
  if (cfg->max_detections() < 1) cfg.fail("max_detections", fmt::format("must be >= 1, got {}", cfg->max_detections()));
  if (model.quantization)
    cfg.fail("feature_extractor",
             "quantization of image_classifier is not supported yet: graph_rewriter; --set graph_rewriter= works with "
             "the float network");
  const ClassifierOptions options{.num_classes = cfg->num_classes(),
                                  .input = read_input(cfg),
                                  .label_smoothing = smoothing,
                                  .dropout_keep_probability = keep,
                                  .max_detections = cfg->max_detections(),
                                  .detection_restores_scores = model.detection_restores_heads};
  nn::ClassificationBackbone backbone = nn::build_classification_backbone(
      cfg.child("feature_extractor", cfg->feature_extractor()), {.freeze_batch_norm = cfg->freeze_batchnorm()});
  const int64_t smallest = std::min(options.input.size[0], options.input.size[1]);
  if (smallest < backbone.extractor->min_image_side())
    cfg.fail("image_resizer",
             fmt::format("must give at least {} pixels a side for {}, got {}", backbone.extractor->min_image_side(),
                         cfg->feature_extractor().type(), smallest));
  return std::make_unique<ImageClassifier>(std::move(backbone), options);
}
OSPREY_REGISTER(DetectionModel, &make_image_classifier);

}  // namespace
}  // namespace osprey::models
