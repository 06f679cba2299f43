#pragma once
#include <cstdint>
#include <vector>

namespace osprey::data {

/// One of several data sets, of which an epoch takes fixed shares.
struct DataSetShare {
  std::vector<int64_t> records;  ///< its numbers among all records
  int64_t per_epoch = 0;         ///< examples of it in an epoch; its records take turns, whatever the epoch
};

/// Which record stands at which place of a run: a permutation of all records for each epoch, one after the other.
/// A draw is a record on one of the occasions that it has in an epoch: usually each has one, and they are alike.
struct EpochOrder {
  int64_t num_records = 1;  ///< in the files
  int64_t keep_1_of = 1;    ///< only every so manieth record, from the first
  bool shuffle = true;
  uint64_t seed = 0;
  std::vector<int64_t> draws;           ///< of an epoch where some records have more occasions than one, else empty
  std::vector<DataSetShare> data_sets;  ///< of an epoch that takes shares of several, else empty

  struct Place {
    uint64_t epoch = 0;
    int64_t index = 0;  ///< in the epoch's order
  };

  /// Whether a record has a place at all.
  bool yields(int64_t record) const { return record % keep_1_of == 0; }
  int64_t size() const;
  Place place(int64_t running) const { return {static_cast<uint64_t>(running / size()), running % size()}; }
  /// The record + n * num_records on its nth occasion beyond the first.
  int64_t draw(const Place& at) const;
  int64_t record_of(int64_t draw) const { return draw % num_records; }

  /// Gives each record of the epoch as many occasions as `repeats` says.
  void repeat(const std::vector<int64_t>& repeats);

 private:
  int64_t draw_of_data_sets(const Place& at) const;
};

}  // namespace osprey::data
