#include "osprey/models/ssd_meta_arch.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <vector>

#include "osprey/nn/layer.h"
#include "osprey/nn/quantization.h"

namespace osprey::models {
namespace {

const char* const kExtractorScope = "FeatureExtractor";

}  // namespace

SsdMetaArch::SsdMetaArch(Parts parts, const SsdOptions& options)
    : parts_(std::move(parts)), options_(options), input_(options.input, *parts_.feature_extractor) {
  register_module(kExtractorScope, parts_.feature_extractor);
  nn::adopt_children(*this, *parts_.box_predictor);
}

void SsdMetaArch::train(bool on) {
  DetectionModel::train(on);
  parts_.box_predictor->train(on);
}

ModelInput SsdMetaArch::preprocess(const Batch& batch) { return input_.of(batch, is_training()); }

std::vector<at::Tensor> SsdMetaArch::feature_maps(const ModelInput& input) {
  return parts_.feature_extractor->forward(input.images, {input.example_keys});
}

Predictions SsdMetaArch::predict(const ModelInput& input) {
  const std::vector<at::Tensor> maps = feature_maps(input);
  const nn::BoxPredictor::Output output = parts_.box_predictor->forward(maps, {input.example_keys});
  const std::array<int64_t, 2> input_size = input_.size_for(input.images);
  const at::Tensor& anchors = anchors_of(maps, input_size);
  // Losses can do with logits of half the bits.
  return {output.box_encodings.to(at::kFloat), is_training() ? output.class_logits : output.class_logits.to(at::kFloat),
          anchors, anchor_shapes_, input_size};
}

const at::Tensor& SsdMetaArch::anchors_of(const std::vector<at::Tensor>& feature_maps,
                                          const std::array<int64_t, 2>& input_size) {
  std::vector<std::array<int64_t, 2>> shapes;
  for (const at::Tensor& map : feature_maps) shapes.push_back({map.size(2), map.size(3)});
  const c10::Device device = feature_maps[0].device();
  if (shapes != anchor_shapes_ || input_size != anchor_input_size_ || anchors_.device() != device) {
    const auto& [height, width] = input_size;
    const boxes::AnchorGenerator& generator = *parts_.anchor_generator;
    anchors_ = (options_.input.any_size ? generator.generate_for_any_size(shapes, height, width)
                                        : generator.generate(shapes, height, width))
                   .to(device);
    anchor_shapes_ = shapes;
    anchor_input_size_ = input_size;
  }
  return anchors_;
}

Targets SsdMetaArch::assign_targets(const Predictions& predictions, const Batch& batch, bool encode) const {
  // Boxes of the batch are fractions of the picture, anchors are fractions of the padded canvas.
  targets::Groundtruth truth;
  truth.boxes = batch.boxes;
  truth.classes = batch.classes;
  truth.valid = batch.valid;
  truth.weights = batch.weights;
  if (options_.input.has_padding) {
    const auto& [height, width] = predictions.input_size;
    // Divided twice, as the original does: the last bit of a box decides about matches at a threshold.
    const at::Tensor shapes = batch.true_shapes.to(batch.boxes.device(), at::kFloat);
    const auto share = [&](int64_t side, int64_t canvas) {
      const at::Tensor length = shapes.select(1, side);
      return (at::full_like(length, canvas) / length).reciprocal();
    };
    const at::Tensor extent = at::stack({share(0, height), share(1, width)}, 1);
    truth.boxes = batch.boxes * extent.repeat({1, 2}).unsqueeze(1);
  }
  if (options_.use_confidences && (is_training() || options_.evaluates_confidences))
    truth.confidences = batch.confidences;
  return parts_.target_assigner->assign(predictions.anchors, truth, encode);
}

at::Tensor SsdMetaArch::box_losses(const Predictions& predictions, const Targets& targets) const {
  const losses::LocalizationLoss& loss = *parts_.losses.localization;
  const boxes::BoxCoder& coder = parts_.target_assigner->coder();
  const auto& [codes, logits, anchors, shapes, input_size] = predictions;
  if (!targets.boxes.defined())
    return loss.of_boxes(codes, {targets.truth, targets.match.box, anchors, *coder.center_size_scales()},
                         targets.box_weights);
  if (!loss.compares_boxes()) return loss(codes, targets.boxes, targets.box_weights);
  return loss(coder.decode(codes, anchors), coder.decode(targets.boxes, anchors), targets.box_weights);
}

void SsdMetaArch::keep_sampled(Targets& targets, const at::Tensor& example_keys) const {
  auto& [rows, weights, row] = targets.classes;
  const auto of_anchors = [&row](const at::Tensor& of_rows) { return rows_of_anchors(of_rows, row); };
  const at::Tensor candidates = of_anchors(weights.mean(2) != 0),
                   positives = of_anchors(rows.slice(2, has_background_column() ? 1 : 0).sum(2) != 0);
  const at::Tensor kept = (*parts_.losses.sampler)(
      candidates, positives, example_keys.defined() ? example_keys : at::arange(rows.size(0), row.options()));
  // Anchors that are left out name one more row, which has no weight.
  row = at::where(kept, row, rows.size(1));
  rows = at::constant_pad_nd(rows, {0, 0, 0, 1});
  weights = at::constant_pad_nd(weights, {0, 0, 0, 1});
  targets.box_weights = targets.box_weights * kept;
}

Losses SsdMetaArch::loss(const Predictions& predictions, const Batch& batch) {
  const auto& [classification, localization, miner, sampler, classification_weight, localization_weight] =
      parts_.losses;
  const boxes::BoxCoder& coder = parts_.target_assigner->coder();
  const bool loss_encodes = localization->encodes() && coder.center_size_scales() != nullptr;
  Targets targets = assign_targets(predictions, batch, !loss_encodes);
  if (sampler) keep_sampled(targets, batch.example_keys);
  const int64_t images = predictions.box_encodings.size(0), anchors = predictions.box_encodings.size(1);
  const at::Tensor image_weights =
      batch.image_weights.defined() ? batch.image_weights : at::ones({images}, targets.box_weights.options());
  const at::Tensor box_losses =
      losses::per_anchor(this->box_losses(predictions, targets), images, anchors) * image_weights.unsqueeze(1);
  // [B, A] or, for losses that couple the anchors, [B, C]: whatever is left belongs to one image each.
  const at::Tensor class_losses =
      classification->summed(predictions.class_logits, targets.classes) * image_weights.unsqueeze(1);

  at::Tensor box_sum, class_sum;
  if (miner) {
    const at::Tensor decoded = coder.decode(predictions.box_encodings.detach(), predictions.anchors);
    const losses::MinedLosses mined = (*miner)(box_losses, class_losses, decoded, targets.match.box);
    box_sum = mined.localization;
    class_sum = mined.classification;
  } else {
    box_sum = box_losses.sum();
    class_sum = class_losses.sum();
  }
  const double code_size = options_.normalize_box_loss_by_code_size ? static_cast<double>(coder.code_size()) : 1.0;
  Losses result;
  result.terms = {{"Loss/localization_loss", box_sum * (localization_weight / code_size)},
                  {"Loss/classification_loss", class_sum * classification_weight}};
  if (options_.normalize_by_num_matches) result.normalizer = (targets.box_weights * image_weights.unsqueeze(1)).sum();
  return result;
}

Detections SsdMetaArch::postprocess(const Predictions& predictions, const at::Tensor& true_shapes) {
  at::NoGradGuard no_grad;
  const auto& [codes, logits, anchors, shapes, input_size] = predictions;
  const boxes::BoxCoder& coder = parts_.target_assigner->coder();
  const at::Tensor windows = boxes::true_image_windows(true_shapes, input_size[0], input_size[1]).to(codes.device());
  if (coder.center_size_scales() == nullptr)
    return parts_.post_processor(coder.decode(codes, anchors), logits, has_background_column(), windows);
  const boxes::BoxCoding coding{anchors, *coder.center_size_scales()};
  return parts_.post_processor(codes, logits, has_background_column(), windows, &coding);
}

Candidates SsdMetaArch::candidates(const Predictions& predictions) {
  const at::Tensor boxes = parts_.target_assigner->coder().decode(predictions.box_encodings, predictions.anchors);
  const at::Tensor scores = boxes::convert_scores(predictions.class_logits, parts_.post_processor.scores());
  return {boxes, has_background_column() ? scores.slice(2, 1) : scores};
}

const kernels::CodeScales* SsdMetaArch::center_size_scales() const {
  return parts_.target_assigner->coder().center_size_scales();
}

std::map<std::string, std::string> SsdMetaArch::restore_map(RestoreType type) const {
  const std::string prefix = fmt::format("{}.", kExtractorScope);
  std::map<std::string, std::string> result;
  if (type == RestoreType::kClassification) {
    // A classifier has no FeatureExtractor scope; a detector whose backbone alone is wanted has.
    for (const std::string& name : parts_.feature_extractor->backbone_variables()) {
      if (nn::is_of_quantizer(name)) continue;
      result[name] = prefix + name;
      result[prefix + name] = prefix + name;
    }
    return result;
  }
  const bool all = type == RestoreType::kFull || options_.detection_restores_heads;
  for (const auto& [name, value] : variables(*this))
    if ((all || name.starts_with(prefix)) && !nn::is_of_quantizer(name)) result[name] = name;
  return result;
}

}  // namespace osprey::models
