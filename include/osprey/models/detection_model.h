#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/config/registry.h"
#include "osprey/core/batch.h"
#include "osprey/core/detections.h"
#include "osprey/core/losses.h"
#include "osprey/core/predictions.h"
#include "osprey/kernels/code_scales.h"
#include "osprey/nn/quantization.h"
#include "osprey/nn/regularizer.h"

namespace osprey::models {

/// A batch as the network reads it.
struct ModelInput {
  at::Tensor images;        ///< [B, 3, H, W] float, channels_last, normalised; the padded area holds the network's zero
  at::Tensor true_shapes;   ///< [B, 2] int64
  at::Tensor example_keys;  ///< [B] int64: keys random draws such as dropout; undefined in evaluation
};

/// What suppression chooses from.
struct Candidates {
  at::Tensor boxes;   ///< [B, A, 4], or [B, A, C, 4] with a box per class; float32, normalised to the padded canvas
  at::Tensor scores;  ///< [B, A, C] float32, converted and calibrated, without background
};

/// What a fine-tuning checkpoint restores.
enum class RestoreType { kClassification, kDetection, kFull };

/// What a meta-architecture is told beside its own message.
struct ModelOptions {
  bool detection_restores_heads = false;                        ///< train_config.load_all_detection_checkpoint_vars
  uint64_t seed = 0;                                            ///< of the run
  std::optional<nn::Quantization> quantization = std::nullopt;  ///< nothing: the float network
};

/// A trainable detector: the one interface that trainer, evaluator and exporter know.
///
/// The life of a step: preprocess -> predict -> loss (training) or postprocess (evaluation). In training mode
/// layers keep their new running statistics and ranges aside until `commit_statistics`, so that a step that is thrown
/// away leaves no trace in the model.
class DetectionModel : public torch::nn::Module {
 public:
  /// Meta-architectures, by the message that configures them.
  using Registry = config::Registry<DetectionModel, const ModelOptions&>;

  /// Normalises the images and clears the padding. Does not resize, but where the batch leaves that to the device.
  virtual ModelInput preprocess(const Batch& batch) = 0;

  /// Gradients flow to the parameters. The anchors are those of the size of the images.
  virtual Predictions predict(const ModelInput& input) = 0;

  /// Un-normalised loss sums of the batch; rows of `valid` false and images of weight 0 add nothing.
  virtual Losses loss(const Predictions& predictions, const Batch& batch) = 0;

  /// Decodes, suppresses and pads to a fixed number of detections. No gradients.
  /// true_shapes  [B, 2] int64
  virtual Detections postprocess(const Predictions& predictions, const at::Tensor& true_shapes) = 0;

  /// The anchors' boxes and scores before suppression, in tensor operations only, so that an export can trace them.
  virtual Candidates candidates(const Predictions& predictions) = 0;

  /// The scales of the codes of boxes where `predict` codes them by center and size; null where it does otherwise.
  virtual const kernels::CodeScales* center_size_scales() const { return nullptr; }

  /// How `postprocess` suppresses the candidates.
  virtual const boxes::NmsOptions& nms_options() const = 0;

  /// Scalar: the configured penalty on the weights, added once per step; zero where there is none. No gradient flows
  /// through it: `optim::GradientPipeline`, which is given `regularized_weights`, adds it to those of the weights.
  virtual at::Tensor regularization_loss();

  /// The weights that are penalised, frozen ones included: the model's own tensors, each with its penalty. Those of its
  /// layers.
  virtual std::vector<nn::RegularizedWeight> regularized_weights() const;

  /// Which of our variables (value) a checkpoint's variable (key) restores; both are names as in `variables()`. Ranges
  /// of convolutions for 8 bits are found anew.
  virtual std::map<std::string, std::string> restore_map(RestoreType type) const = 0;

  /// Takes over, or throws away, the statistics that layers have gathered since the last call.
  /// proceed  scalar bool on the device: false, they are thrown away; undefined: true
  virtual void commit_statistics(const at::Tensor& proceed = {});
  virtual void discard_statistics();

  virtual int64_t num_classes() const = 0;
  /// Height and width of the (padded) input images; of usual ones where each batch has a size of its own.
  virtual std::array<int64_t, 2> input_size() const = 0;
  /// Whether each batch has a size of its own: `predict` then takes any from the least of the network on.
  virtual bool any_input_size() const { return false; }
  /// Channels of each of the maps that predictions are made from, finest first.
  virtual std::vector<int64_t> feature_map_depths() const { return {}; }
};

/// Every variable of a model by its full name: parameters, then buffers, in the order of construction. The names are
/// those of the checkpoint: module names joined by '.', e.g. "FeatureExtractor.MobilenetV1.Conv2d_0.weights".
std::vector<std::pair<std::string, at::Tensor>> variables(const torch::nn::Module& model);

}  // namespace osprey::models
