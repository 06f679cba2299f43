#pragma once
#include <memory>

#include "osprey/data/batch_source.h"
#include "osprey/models/detection_model.h"

namespace osprey::testing {

struct ToyOptions {
  int64_t num_classes = 2;
  double dropout = 0;              ///< share of elements dropped, keyed by example
  bool frozen_batch_norm = false;  ///< uses and keeps the moving averages
  double weight_decay = 1e-4;
};

/// The smallest detector that still has everything a trainer must get right: two convolutions ("net.conv1",
/// "net.conv2", with "weights" and "biases"), a batch norm with moving averages that waits for `commit_statistics`,
/// dropout keyed by example, ignored anchors, a match count, and a penalty on the weights. One anchor per pixel of an 8
/// x 8 picture.
std::shared_ptr<models::DetectionModel> make_toy_model(const ToyOptions& options = {});

/// Pictures of noise with one bright box each; batch i depends on (seed, i) alone. M is 3, with one row of padding.
///
/// finite_batches  0: without end
std::unique_ptr<data::BatchSource> make_toy_source(int64_t batch_size, uint64_t seed = 0, int64_t finite_batches = 0);

}  // namespace osprey::testing
