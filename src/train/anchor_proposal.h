#pragma once
#include <optional>
#include <vector>

#include "osprey/train/dataset_check.h"
#include "train/anchor_reach.h"

namespace osprey::train {

/// Looks for other sizes of as many anchors, of an `ssd_anchor_generator` or `multiscale_anchor_generator`, that reach
/// at least 2 % more of the boxes. Deterministic; takes some seconds at most. Nothing for other generators, or for
/// fewer than 100 boxes.
///
/// Each number is multiplied and divided by 2, then by smaller and smaller factors, as long as more boxes are reached,
/// or as many with more overlap; from the numbers of the config, and from aspect ratios that divide the boxes evenly.
/// Scales stay in order and below the picture's side, aspect ratios between 1/10 and 10, anchor_scale between 1 and 8.
///
/// now    of the config
/// boxes  in the coordinates of the anchors
std::optional<AnchorSearch> search_anchors(const config::ConfigNode<proto::AnchorGenerator>& now,
                                           const AnchorPlaces& places, const std::vector<Box>& boxes);

}  // namespace osprey::train
