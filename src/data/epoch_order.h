#pragma once
#include <cstdint>
#include <vector>

#include "osprey/data/random.h"

namespace osprey::data {

/// Which record stands at which place of a run: a permutation of all records for each epoch, one after the other.
/// A draw is a record on one of the occasions that it has in an epoch; without `draws` each has one, and they are
/// alike.
struct EpochOrder {
  int64_t num_records = 1;  ///< in the files
  int64_t keep_1_of = 1;    ///< only every so manieth record, from the first
  bool shuffle = true;
  uint64_t seed = 0;
  std::vector<int64_t> draws;  ///< of an epoch: record + n * num_records for the nth occasion beyond the first

  struct Place {
    uint64_t epoch = 0;
    int64_t index = 0;  ///< in the epoch's order
  };

  /// Whether a record has a place at all.
  bool yields(int64_t record) const { return record % keep_1_of == 0; }
  int64_t size() const {
    return draws.empty() ? (num_records + keep_1_of - 1) / keep_1_of : static_cast<int64_t>(draws.size());
  }
  Place place(int64_t running) const { return {static_cast<uint64_t>(running / size()), running % size()}; }
  int64_t draw(const Place& at) const {
    const int64_t index = shuffle ? permuted(at.index, size(), seed, at.epoch) : at.index;
    return draws.empty() ? index * keep_1_of : draws[static_cast<size_t>(index)];
  }
  int64_t record(const Place& at) const { return draw(at) % num_records; }

  /// Gives each record of the epoch as many occasions as `repeats` says.
  void repeat(const std::vector<int64_t>& repeats) {
    for (int64_t record = 0; record < num_records; record += keep_1_of)
      for (int64_t n = 0; n < repeats[static_cast<size_t>(record)]; ++n) draws.push_back(record + n * num_records);
  }
};

}  // namespace osprey::data
