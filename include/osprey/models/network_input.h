#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/models/detection_model.h"
#include "osprey/nn/feature_extractor.h"

namespace osprey::models {

/// What the image_resizer of a model makes of pictures.
struct NetworkInputOptions {
  std::array<int64_t, 2> size = {300, 300};  ///< height, width; a usual one where it may be any
  bool any_size = false;                     ///< each batch has a size of its own
  bool has_padding = false;                  ///< pictures may be smaller than the input
  std::vector<float> pad_value = {};         ///< of each channel, after normalisation; empty: zeros
  bool sees_middle = false;                  ///< larger pictures are seen in their middle
};

/// Reads them.
/// meta_architecture  the node of model.ssd and the like
/// throws             ConfigError where there is no image_resizer, or one of grey pictures
NetworkInputOptions read_network_input(const config::Node& meta_architecture);

/// From the pictures of a batch to what a network sees: normalised, the padding cleared, resized where the batch leaves
/// that to the device.
class NetworkInput {
 public:
  /// network  whose normalisation and least size are obeyed
  NetworkInput(const NetworkInputOptions& options, const nn::FeatureExtractor& network);

  /// The kernel's work, but where an export is traced, which has to do with the operations of libtorch.
  /// training  whether the input says which examples random draws are for
  /// throws    DataError where pictures are too small for the network
  ModelInput of(const Batch& batch, bool training) const;

  /// Height and width of the network's input for these pictures, which the device may still have to resize.
  std::array<int64_t, 2> size_for(const at::Tensor& images) const;

  const NetworkInputOptions& options() const { return options_; }

 private:
  void check_size(const Batch& batch) const;
  /// The pictures, or their middle.
  at::Tensor seen_of(const at::Tensor& images) const;
  at::Tensor by_kernel(const at::Tensor& seen, const Batch& batch) const;
  at::Tensor by_operations(const at::Tensor& seen, const Batch& batch) const;

  NetworkInputOptions options_;
  nn::Normalization normalization_;
  int64_t min_side_;
};

}  // namespace osprey::models
