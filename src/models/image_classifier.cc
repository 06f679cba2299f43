#include "osprey/models/image_classifier.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "nn/heads/per_anchor.h"
#include "osprey/core/constant.h"
#include "osprey/nn/layer.h"

namespace osprey::models {
namespace {

boxes::PostProcessor post_processor(const ClassifierOptions& options) {
  boxes::NmsOptions nms;
  nms.score_threshold = -1;  // also classes whose probability is rounded to zero
  nms.max_detections_per_class = 1;
  nms.max_total_detections = std::min(options.max_detections, options.num_classes);
  return {nms, {.converter = boxes::ScoreConverter::kSoftmax}};
}

/// One that takes up the whole picture; [1, 4].
at::Tensor whole_picture(const at::Tensor& like) {
  return constant({0, 0, 1, 1}, like.options().dtype(at::kFloat).requires_grad(false)).view({1, 4});
}

/// The same for each picture of a batch; [B, 1, 4].
at::Tensor whole_pictures(const Predictions& predictions) {
  return predictions.anchors.expand_as(predictions.box_encodings);
}

}  // namespace

ImageClassifier::ImageClassifier(nn::ClassificationBackbone backbone, const ClassifierOptions& options)
    : options_(options),
      extractor_(std::move(backbone.extractor)),
      input_(options.input, *extractor_),
      post_processor_(post_processor(options)) {
  nn::adopt_children(*this, *extractor_);
  const nn::ConvBlockOptions logits{.in_depth = extractor_->depths().front(),
                                    .out_depth = options.num_classes,
                                    .normalize = false,
                                    .activate = false};
  logits_ = nn::add_child(*this, backbone.logits_scope, std::make_shared<nn::ConvBlock>(logits, backbone.hyperparams));
  if (options.dropout_keep_probability < 1)
    dropout_ = nn::add_child(*this, "Dropout", std::make_shared<nn::Dropout>(options.dropout_keep_probability));
}

void ImageClassifier::train(bool on) {
  DetectionModel::train(on);
  extractor_->train(on);
}

ModelInput ImageClassifier::preprocess(const Batch& batch) { return input_.of(batch, is_training()); }

Predictions ImageClassifier::predict(const ModelInput& input) {
  const nn::Context context{input.example_keys};
  at::Tensor x = extractor_->forward(input.images, context).front();
  if (dropout_) x = dropout_->forward(x, context);
  const at::Tensor logits = nn::per_anchor(logits_->forward(x), options_.num_classes).to(at::kFloat);
  const at::Tensor picture = whole_picture(logits);
  return {at::zeros_like(picture).unsqueeze(0).expand({logits.size(0), 1, 4}),
          logits,
          picture,
          {{1, 1}},
          input_.size_for(input.images)};
}

Losses ImageClassifier::loss(const Predictions& predictions, const Batch& batch) {
  TORCH_CHECK(batch.classes.dim() == 2, "classes must be [B, M], got ", batch.classes.sizes());
  const at::Tensor log_shares = predictions.class_logits.squeeze(1).log_softmax(1);  // [B, C]
  const at::Tensor of_classes = log_shares.gather(1, batch.classes.clamp_min(0));    // [B, M]
  const at::Tensor cross_entropy =
      -(1 - options_.label_smoothing) * of_classes - options_.label_smoothing * log_shares.mean(1, /*keepdim=*/true);
  at::Tensor weights = batch.weights * batch.valid;
  if (batch.image_weights.defined()) weights = weights * batch.image_weights.unsqueeze(1);
  Losses result;
  result.terms = {{"Loss/classification_loss", (cross_entropy * weights).sum()}};
  result.normalizer = weights.sum();
  return result;
}

Detections ImageClassifier::postprocess(const Predictions& predictions, const at::Tensor&) {
  const at::NoGradGuard no_grad;
  return post_processor_(whole_pictures(predictions), predictions.class_logits, /*has_background=*/false,
                         predictions.anchors.squeeze(0));
}

Candidates ImageClassifier::candidates(const Predictions& predictions) {
  return {whole_pictures(predictions), boxes::convert_scores(predictions.class_logits, post_processor_.scores())};
}

std::map<std::string, std::string> ImageClassifier::restore_map(RestoreType type) const {
  std::map<std::string, std::string> result;
  if (type == RestoreType::kFull || (type == RestoreType::kDetection && options_.detection_restores_scores))
    for (const auto& [name, value] : variables(*this)) result[name] = name;
  if (type == RestoreType::kFull) return result;
  for (const std::string& name : extractor_->backbone_variables()) {
    result[name] = name;
    result["FeatureExtractor." + name] = name;
  }
  return result;
}

}  // namespace osprey::models
