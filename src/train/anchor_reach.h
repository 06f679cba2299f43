#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "osprey/boxes/anchor_generator.h"
#include "osprey/config/pipeline.h"
#include "osprey/core/box.h"

namespace osprey::train {

/// Answers whether any anchor overlaps a box enough to match it by itself, without being forced to.
class AnchorReach {
 public:
  /// anchors    [A, 4] float32 on the CPU
  /// threshold  the least IoU, in (0, 1]
  AnchorReach(const at::Tensor& anchors, float threshold);

  /// box  in the coordinates of the anchors
  bool reaches(const Box& box) const;
  float threshold() const { return threshold_; }

 private:
  std::vector<Box> anchors_;  // by area
  std::vector<float> areas_;
  float threshold_;
};

/// Over what a config's anchors lie, and how well they have to overlap.
struct AnchorPlaces {
  std::vector<boxes::FeatureMapShape> feature_maps;
  std::array<int64_t, 2> input_size = {0, 0};  ///< height and width of the network's input, or of a usual one
  float threshold = 0;                         ///< matched_threshold
  bool any_input_size = false;                 ///< each batch of the network has a size of its own

  /// The anchors of a generator on maps in the place of these.
  at::Tensor anchors_on(const std::vector<boxes::FeatureMapShape>& maps, const boxes::AnchorGenerator& generator) const;
};

/// Those of a config's model; nothing where it has no anchors that are matched by IoU and a threshold, or is not built
/// yet. Builds no weights.
std::optional<AnchorPlaces> anchor_places_of(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root);

AnchorReach anchor_reach_of(const boxes::AnchorGenerator& generator, const AnchorPlaces& places);

}  // namespace osprey::train
