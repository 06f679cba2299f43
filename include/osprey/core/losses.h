#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace osprey {

/// One named part of the loss, e.g. "Loss/classification_loss".
struct LossTerm {
  std::string name;
  at::Tensor
      sum;  ///< scalar on the device, summed over the batch, its weight applied, not yet divided by the normaliser
};

/// The loss of a (part of a) batch. Sums and normaliser are kept apart so that parts of a batch, on other devices or
/// one after the other, can be added before the one division: total = sum(terms) / max(normalizer, 1).
struct Losses {
  std::vector<LossTerm> terms;
  at::Tensor
      normalizer;  ///< scalar without gradient: weight of the matched anchors; undefined: the loss is not normalised
};

}  // namespace osprey
