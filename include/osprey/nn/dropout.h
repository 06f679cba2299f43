#pragma once
#include "osprey/core/example_draws.h"
#include "osprey/nn/layer.h"

namespace osprey::nn {

/// Sets elements to zero at random while training and scales the others by 1 / keep_probability.
///
/// Which elements, depends on the seed of the run, the layer's name and the key of the example, so an example meets the
/// same mask wherever it stands in a batch and however the batch is cut up.
///
/// source  Srivastava et al., "Dropout", JMLR 2014
class Dropout : public Layer {
 public:
  /// keep_probability  in (0, 1]
  explicit Dropout(double keep_probability) : keep_probability_(keep_probability) {}

  void on_named(const std::string& full_name, uint64_t seed) override;

  /// x  [B, C, H, W]; returned as it is in evaluation, or where the context has no keys
  at::Tensor forward(const at::Tensor& x, const Context& context) const;

 private:
  double keep_probability_;
  ExampleDraws draws_;
};

/// Sets all that a branch adds for an example to zero at random while training and scales it up otherwise, so that the
/// branch keeps its mean. Which examples, is keyed as in `Dropout`.
/// source  Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016
class DropPath : public Layer {
 public:
  /// drop_rate  in [0, 1)
  explicit DropPath(double drop_rate) : drop_rate_(drop_rate) {}

  void on_named(const std::string& full_name, uint64_t seed) override;

  /// x  [B, C, H, W]; returned as it is in evaluation, or where the context has no keys
  at::Tensor forward(const at::Tensor& x, const Context& context) const;

 private:
  double drop_rate_;
  ExampleDraws draws_;
};

}  // namespace osprey::nn
