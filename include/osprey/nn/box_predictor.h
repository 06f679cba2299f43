#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/config/registry.h"
#include "osprey/nn/layer.h"
#include "osprey/nn/quantization.h"

namespace osprey::nn {

/// What a box predictor must know of the model around it.
struct BoxPredictorOptions {
  int64_t num_class_slots = 0;  ///< class columns per anchor, the background's included where there is one
  std::vector<int64_t> depths;  ///< channels of each feature map
  std::vector<int64_t> anchors_per_location;  ///< of each feature map
  bool freeze_batch_norm = false;
  bool keras = false;  ///< of a Keras (TF2) model, where defaults of some layers differ
  std::optional<Quantization> quantization = std::nullopt;  ///< nothing: the float network
};

/// Feature maps in, box encodings and class scores for every anchor out. Its layers live in the root scope of the
/// model.
class BoxPredictor : public torch::nn::Module {
 public:
  using Registry = config::Registry<BoxPredictor, const BoxPredictorOptions&>;

  struct Output {
    at::Tensor box_encodings;  ///< [B, A, K]
    at::Tensor class_logits;   ///< [B, A, num_class_slots]
  };
  /// Anchors run over the maps, then rows, columns and the anchors of a location.
  virtual Output forward(const std::vector<at::Tensor>& feature_maps, const Context& context) = 0;

  virtual int64_t box_code_size() const = 0;
};

}  // namespace osprey::nn
