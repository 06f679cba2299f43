#pragma once
#include <vector>

#include "osprey/protos/anchor_generator.pb.h"

/// The numbers of an anchor generator that decide over the sizes of its anchors.
namespace osprey::train {

struct AnchorNumbers {
  std::vector<double> scales;         ///< scales, or min_scale and max_scale, or anchor_scale
  std::vector<double> aspect_ratios;  ///< width / height
  double least = 0, most = 1;         ///< of a scale that may be proposed

  /// Whether they may be proposed: scales also in order, aspect ratios between 1/10 and 10.
  bool in_bounds() const;
};

/// Whether it is a generator that has them.
bool has_numbers(const protos::AnchorGenerator& generator);
AnchorNumbers numbers_of(const protos::AnchorGenerator& generator);

/// That generator with other numbers, each with three digits.
protos::AnchorGenerator with_numbers(protos::AnchorGenerator generator, const AnchorNumbers& numbers);

/// Generators of another form with as many anchors in each cell: one that lists its scales, or those with other
/// scales_per_octave and accordingly many aspect ratios, which have to be found.
std::vector<protos::AnchorGenerator> as_many_anchors(const protos::AnchorGenerator& generator);

}  // namespace osprey::train
