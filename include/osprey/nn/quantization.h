#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/nn/fake_quantize.h"

namespace osprey::nn {

/// Training for 8 bits.
struct Quantization {
  int64_t delay = 0;  ///< values are rounded from this step on, counted from one
  /// Training rounds what a batch norm by the statistics of the batch gives before it is activated, evaluation after.
  bool before_activation = false;
  bool weights_per_channel = false;  ///< a range for each channel of a convolution's result instead of one for all
};

/// The same for a network whose batch norms update their averages by operations of their own in the original, whatever
/// the config says.
std::optional<Quantization> behind_activations(std::optional<Quantization> quantization);

/// How a convolution is rounded that is to run with 8 bits: its weights, with the factor of the batch norm in them, and
/// what comes out behind batch norm and activation.
struct ConvolutionQuantizers {
  std::shared_ptr<FakeQuantize> weights, result;
  bool before_activation = false;  ///< as in Quantization
};

/// The maps that a convolution is for.
struct QuantizedMaps {
  size_t count = 1;
  bool own_weights = false;  ///< the weights are not the same for each, as batch norms of their own are in them
};

/// Adds those of each map to `parent`, under the scopes weights_quant and act_quant, or of several maps
/// act_quant/feature_0 and so on; none where there is no quantization.
/// scope     in front of these, with its slash; may be empty
/// channels  of the convolution's result
std::vector<ConvolutionQuantizers> quantizers_of_maps(torch::nn::Module& parent, const std::string& scope,
                                                      int64_t channels, const std::optional<Quantization>& quantization,
                                                      const QuantizedMaps& maps);

/// Adds one for the sum of maps that are rounded themselves; null where there is no quantization.
std::shared_ptr<FakeQuantize> add_sum_quantizer(torch::nn::Module& parent, const std::string& scope,
                                                const std::optional<Quantization>& quantization);

/// Whether a variable is of one of these, by its full name.
bool is_of_quantizer(const std::string& our_name);

/// What a quantized graph of the original may call the min or max of one of these: by the scope of an operation, which
/// is not always that of its variables. None for any other variable.
std::vector<std::string> tf_quantizer_names(const std::string& our_name);

}  // namespace osprey::nn
