#pragma once
#include <cstdint>

#include "osprey/data/random.h"

namespace osprey::data {

/// Which record stands at which place of a run: a permutation of all records for each epoch, one after the other.
struct EpochOrder {
  int64_t num_records = 1;  ///< in the files
  int64_t keep_1_of = 1;    ///< only every so manieth record, from the first
  bool shuffle = true;
  uint64_t seed = 0;

  struct Place {
    uint64_t epoch = 0;
    int64_t index = 0;  ///< in the epoch's order
  };

  /// Whether a record has a place at all.
  bool yields(int64_t record) const { return record % keep_1_of == 0; }
  int64_t size() const { return (num_records + keep_1_of - 1) / keep_1_of; }
  Place place(int64_t running) const { return {static_cast<uint64_t>(running / size()), running % size()}; }
  int64_t record(const Place& at) const {
    return (shuffle ? permuted(at.index, size(), seed, at.epoch) : at.index) * keep_1_of;
  }
};

}  // namespace osprey::data
