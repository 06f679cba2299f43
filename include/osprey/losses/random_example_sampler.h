#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/core/example_draws.h"

namespace osprey::losses {

/// Keeps all positive anchors of an image, and of the others so many, chosen at random, that positives make up the
/// wanted share: none where an image has no positives.
/// source  Ren et al., "Faster R-CNN", NeurIPS 2015, section 3.1.3
class RandomExampleSampler {
 public:
  /// positive_fraction  of the anchors that are kept; > 0
  /// seed               of the run: with the keys of the examples it decides which anchors are kept
  RandomExampleSampler(float positive_fraction, uint64_t seed);

  /// Runs on the device of the anchors, and does not wait for it.
  ///
  /// candidates    [B, A] bool: anchors that may be kept
  /// positives     [B, A] bool
  /// example_keys  [B] int64 of any device
  /// returns       [B, A] bool: which anchors are kept
  at::Tensor operator()(const at::Tensor& candidates, const at::Tensor& positives,
                        const at::Tensor& example_keys) const;

 private:
  float negatives_per_positive_;
  ExampleDraws draws_;
};

}  // namespace osprey::losses
