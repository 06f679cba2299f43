#pragma once
#include <functional>
#include <optional>
#include <string>

namespace osprey::nn {

/// Name of one of our variables in a Keras (TF2) model of the original, e.g. "stem_conv2d/kernel". Layouts are those of
/// `name_map.h`. Each part of a network whose names differ registers a rule for the names below its scope; where
/// several fit, the longest scope decides; nothing where no rule knows the name.
std::optional<std::string> keras_name(const std::string& our_name);

/// A rule gets what follows the scope and gives the whole Keras name.
using KerasNameRule = std::function<std::string(const std::string&)>;

/// scope  with its last dot, e.g. "FeatureExtractor.EfficientNet-B0."
bool add_keras_names(const std::string& scope, KerasNameRule rule);

/// What Keras calls the last part of a name: weights -> kernel, biases -> bias, depthwise_weights -> depthwise_kernel,
/// pointwise_weights -> pointwise_kernel; anything else stays.
std::string keras_leaf(const std::string& leaf);

/// A name cut at its last dot.
struct SplitName {
  std::string scope, leaf;
};
SplitName split_name(const std::string& name);

/// Name of a variable of a block of the added layers, which Keras spreads over <block>_conv (or <block>_depthwise_conv,
/// where it is separable) and <block>_batchnorm. E.g. "smoothing_1.BatchNorm.gamma".
/// place  the scope of the block there
std::string keras_block_name(const std::string& place, const std::string& name);

}  // namespace osprey::nn
