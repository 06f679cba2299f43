#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osprey/boxes/post_processing.h"
#include "osprey/models/detection_model.h"
#include "osprey/models/network_input.h"
#include "osprey/nn/builder.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"

namespace osprey::models {

struct ClassifierOptions {
  int64_t num_classes = 2;
  NetworkInputOptions input;
  double label_smoothing = 0;              ///< share of a target that all classes have alike, in [0, 1)
  double dropout_keep_probability = 1;     ///< of the averaged map, in (0, 1]
  int64_t max_detections = 5;              ///< classes that are named for a picture
  bool detection_restores_scores = false;  ///< a detection checkpoint restores the layer of the scores, too
};

/// Says what a whole picture shows: softmax over one layer on the mean of a backbone's last map.
///
/// To all that works with detectors it is one with a single anchor, the whole picture: each detection is a class with
/// its probability, in the box [0, 0, 1, 1]. Of a picture in training each valid row counts by its class and weight;
/// its box is not looked at. Variables are named as in the published checkpoints of the backbone.
/// source  He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 3.3
class ImageClassifier : public DetectionModel {
 public:
  ImageClassifier(nn::ClassificationBackbone backbone, const ClassifierOptions& options);

  /// The extractor too, whose layers alone are children of this module.
  void train(bool on = true) override;
  ModelInput preprocess(const Batch& batch) override;
  Predictions predict(const ModelInput& input) override;
  /// Cross-entropy, weighed; its normaliser is the sum of the weights.
  /// throws  c10::Error for classes [B, M, C], as merge_multiple_label_boxes makes them
  Losses loss(const Predictions& predictions, const Batch& batch) override;
  Detections postprocess(const Predictions& predictions, const at::Tensor& true_shapes) override;
  Candidates candidates(const Predictions& predictions) override;
  const boxes::NmsOptions& nms_options() const override { return post_processor_.nms(); }
  /// Of any checkpoint but a full one the backbone is restored, by the names of classifiers or detectors.
  std::map<std::string, std::string> restore_map(RestoreType type) const override;
  int64_t num_classes() const override { return options_.num_classes; }
  std::array<int64_t, 2> input_size() const override { return options_.input.size; }
  bool any_input_size() const override { return options_.input.any_size; }
  std::vector<int64_t> feature_map_depths() const override { return extractor_->depths(); }

 private:
  ClassifierOptions options_;
  std::shared_ptr<nn::FeatureExtractor> extractor_;
  std::shared_ptr<nn::ConvBlock> logits_;
  std::shared_ptr<nn::Dropout> dropout_;  // null: none
  NetworkInput input_;
  boxes::PostProcessor post_processor_;
};

}  // namespace osprey::models
