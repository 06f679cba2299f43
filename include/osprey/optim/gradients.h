#pragma once
#include <string>
#include <vector>

#include "osprey/nn/regularizer.h"
#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// Selects parameters by patterns, as the original does.
///
/// A pattern is a regular expression (ECMAScript) that is matched from the start of the TensorFlow name, which is ours
/// with '/' for '.': "FeatureExtractor/.*/BatchNorm" matches "FeatureExtractor.MobilenetV1.Conv2d_0.BatchNorm.gamma".
/// One that matches no parameter so is searched anywhere in the names: "Conv2d_0", "BatchNorm". (Of the original's
/// trainers, one matches from the start and one searches.)
struct VariableFilter {
  std::vector<std::string> update;  ///< train_config.update_trainable_variables; empty: all
  std::vector<std::string> freeze;  ///< train_config.freeze_variables; wins over `update`
};

struct FilteredVariables {
  NamedTensors trained;
  NamedTensors frozen;
  std::vector<std::string> unused_patterns;  ///< patterns that match no variable: most likely typing errors
};

/// Splits the parameters of a model. The frozen ones get requires_grad = false: neither the loss nor the regularisation
/// reaches them, and whoever trains only `trained` leaves them bit for bit as they were.
/// throws  std::regex_error for a pattern that is no regular expression (the builder reports it with its field)
FilteredVariables filter_variables(const NamedTensors& parameters, const VariableFilter& filter);

struct GradientOptions {
  enum class Clip { kGlobalNorm, kPerVariable };
  double bias_multiplier = 0;  ///< factor for the gradients of biases (".../biases", ".../bias"); 0: leave them alone
  double clip_norm = 0;  ///< limit: g * limit / max(norm, limit), NaN where the norm is not finite; 0: no clipping
  Clip clip = Clip::kGlobalNorm;
};

/// What gradients are like, and what has been added to them.
struct GradientNorms {
  at::Tensor norms;    ///< [n] float64: of each gradient that is there
  at::Tensor finite;   ///< scalar bool: whether every number is
  at::Tensor penalty;  ///< scalar float32: the penalties on all weights, frozen ones too; zero where there are none
};

/// What happens to gradients between backward and update: division, penalties, bias multiplier, (frozen variables are
/// out already), clipping.
class GradientPipeline {
 public:
  /// regularized  penalties whose gradients are added, but to weights that are not among the trained ones
  GradientPipeline(NamedTensors trained, const GradientOptions& options,
                   const std::vector<nn::RegularizedWeight>& regularized = {});

  /// Divides the gradients by max(normalizer, 1), the division that core/losses.h leaves for last, and by `scale`; adds
  /// those of the penalties, also where there was none; looks at the results. All in one pass, which does not wait for
  /// the device.
  /// normalizer, scale  float scalars on the device; what is undefined divides nothing
  GradientNorms finish(const at::Tensor& normalizer = {}, const at::Tensor& scale = {});

  /// Changes the gradients in place; parameters without gradient are passed over. Does not wait for the device.
  /// measured  what `finish` has found of them
  /// returns   scalar on the device: norm of all gradients after the bias multiplier, before clipping
  at::Tensor apply(const GradientNorms& measured);

  const GradientOptions& options() const { return options_; }
  bool adds_penalties() const { return adds_penalties_; }  ///< whether it was given any

 private:
  NamedTensors trained_;
  GradientOptions options_;
  bool adds_penalties_;
  std::vector<nn::Regularizer> regularizers_;  ///< of each parameter
  std::vector<nn::RegularizedWeight> frozen_;  ///< those that are not trained
  std::vector<bool> is_bias_;
  at::Tensor penalties_;     ///< [2 n] float32: weights of l1 and l2 of each gradient that is there
  at::Tensor bias_factors_;  ///< [n] float32: of each gradient that is there
};

}  // namespace osprey::optim
