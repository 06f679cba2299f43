#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "epoch_order.h"
#include "osprey/config/node.h"
#include "osprey/data/example_index.h"
#include "osprey/protos/input_reader.pb.h"

namespace osprey::data {

/// `total` in whole parts that are to each other as the weights, as closely as can be; of those that are as close, the
/// first are larger.
/// weights  >= 0, one of them > 0
std::vector<int64_t> parts_by_weight(int64_t total, const std::vector<double>& weights);

/// What an epoch takes of each input_path by `sample_from_datasets_weights`, as many examples in all as there are
/// records.
///
/// index      of the reader's files
/// keep_1_of  only every so manieth record, from the first
/// throws     ConfigError for a file that two paths name, and for a path with a weight and no records
std::vector<DataSetShare> data_set_shares(const ExampleIndex& index,
                                          const config::ConfigNode<proto::InputReader>& reader, int64_t keep_1_of);

}  // namespace osprey::data
