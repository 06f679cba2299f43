#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/boxes/anchor_generator.h"
#include "osprey/boxes/post_processing.h"
#include "osprey/losses/builder.h"
#include "osprey/models/detection_model.h"
#include "osprey/models/network_input.h"
#include "osprey/nn/box_predictor.h"
#include "osprey/nn/feature_extractor.h"
#include "osprey/targets/target_assigner.h"

namespace osprey::models {

/// What the parts of an SSD leave open.
struct SsdOptions {
  int64_t num_classes = 1;
  NetworkInputOptions input;
  bool has_background_column = true;  ///< the first class column is the background's
  bool normalize_by_num_matches = true;
  bool normalize_box_loss_by_code_size = false;
  bool use_confidences = false;           ///< the batch's confidences decide the targets of training
  bool evaluates_confidences = false;     ///< and those of evaluation
  bool detection_restores_heads = false;  ///< a detection checkpoint restores the predictor, too
};

/// A single-shot detector: feature maps, a prediction for every anchor, one pass.
/// source  Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016
class SsdMetaArch : public DetectionModel {
 public:
  struct Parts {
    std::shared_ptr<nn::FeatureExtractor> feature_extractor;  ///< becomes the child FeatureExtractor
    std::shared_ptr<nn::BoxPredictor> box_predictor;          ///< its layers live in the root scope
    std::unique_ptr<boxes::AnchorGenerator> anchor_generator;
    std::unique_ptr<targets::TargetAssigner> target_assigner;
    losses::LossSet losses;
    boxes::PostProcessor post_processor;
  };
  SsdMetaArch(Parts parts, const SsdOptions& options);

  /// The predictor too, whose layers alone are children of this module.
  void train(bool on = true) override;
  ModelInput preprocess(const Batch& batch) override;
  Predictions predict(const ModelInput& input) override;
  Losses loss(const Predictions& predictions, const Batch& batch) override;
  Detections postprocess(const Predictions& predictions, const at::Tensor& true_shapes) override;
  Candidates candidates(const Predictions& predictions) override;
  const kernels::CodeScales* center_size_scales() const override;
  const boxes::NmsOptions& nms_options() const override { return parts_.post_processor.nms(); }
  std::map<std::string, std::string> restore_map(RestoreType type) const override;
  int64_t num_classes() const override { return options_.num_classes; }
  std::array<int64_t, 2> input_size() const override { return options_.input.size; }
  bool any_input_size() const override { return options_.input.any_size; }
  std::vector<int64_t> feature_map_depths() const override { return parts_.feature_extractor->depths(); }

  /// The targets of a batch, as `loss` uses them.
  /// predictions  of the same batch: its anchors and input_size are read
  /// encode       whether with codes; `loss` does without where its localisation loss encodes
  Targets assign_targets(const Predictions& predictions, const Batch& batch, bool encode = true) const;

  /// The maps that predictions are made from, finest first.
  std::vector<at::Tensor> feature_maps(const ModelInput& input);

 private:
  /// What the localisation loss says of each anchor, in the shape that it has.
  at::Tensor box_losses(const Predictions& predictions, const Targets& targets) const;
  /// Takes the weight of all anchors but those that the sampler keeps.
  void keep_sampled(Targets& targets, const at::Tensor& example_keys) const;
  const at::Tensor& anchors_of(const std::vector<at::Tensor>& feature_maps, const std::array<int64_t, 2>& input_size);
  bool has_background_column() const { return options_.has_background_column; }

  Parts parts_;
  SsdOptions options_;
  NetworkInput input_;
  std::vector<std::array<int64_t, 2>> anchor_shapes_;  // that anchors_ belong to,
  std::array<int64_t, 2> anchor_input_size_ = {0, 0};  // for an input of this size
  at::Tensor anchors_;
};

}  // namespace osprey::models
