#pragma once
#include <cstdint>
#include <vector>

#include "osprey/data/example_index.h"

namespace osprey::config {
struct LabelMap;
}

namespace osprey::data {

/// How often each record of a set comes in an epoch so that rare classes are seen more often.
///
/// A class in a share f of the records asks for max(1, sqrt(threshold / f)) times; a record comes as often as the one
/// of its classes that asks for most. What is left over of a whole number is one more for that share of the records,
/// drawn by (seed, record) and the same in every epoch. Reads all records, but no picture; those that cannot be read
/// come once.
///
/// map        of the reader; may be null
/// threshold  in (0, 1]
/// source     Gupta et al., "LVIS: A Dataset for Large Vocabulary Instance Segmentation", CVPR 2019, section 5
std::vector<int64_t> repeats_of_records(const ExampleIndex& index, const config::LabelMap* map, double threshold,
                                        uint64_t seed);

}  // namespace osprey::data
