#include "epoch_order.h"

#include "osprey/data/random.h"

namespace osprey::data {

int64_t EpochOrder::size() const {
  if (!draws.empty()) return static_cast<int64_t>(draws.size());
  if (data_sets.empty()) return (num_records + keep_1_of - 1) / keep_1_of;
  int64_t size = 0;
  for (const DataSetShare& set : data_sets) size += set.per_epoch;
  return size;
}

int64_t EpochOrder::draw(const Place& at) const {
  if (!data_sets.empty()) return draw_of_data_sets(at);
  const int64_t index = shuffle ? permuted(at.index, size(), seed, at.epoch) : at.index;
  return draws.empty() ? index * keep_1_of : draws[static_cast<size_t>(index)];
}

/// Data sets come in a random order whether or not their records do: else an epoch would be one set after the other.
int64_t EpochOrder::draw_of_data_sets(const Place& at) const {
  int64_t index = permuted(at.index, size(), seed, at.epoch);
  size_t which = 0;
  for (; index >= data_sets[which].per_epoch; ++which) index -= data_sets[which].per_epoch;
  const auto& [records, per_epoch] = data_sets[which];
  const auto count = static_cast<int64_t>(records.size());
  const int64_t first = static_cast<int64_t>(at.epoch) * per_epoch, turn = (first + index) / count;
  const int64_t in_turn = (first + index) % count;
  const int64_t own = shuffle ? permuted(in_turn, count, seed + 1 + which, static_cast<uint64_t>(turn)) : in_turn;
  return records[static_cast<size_t>(own)] + (turn - first / count) * num_records;
}

void EpochOrder::repeat(const std::vector<int64_t>& repeats) {
  for (int64_t record = 0; record < num_records; record += keep_1_of)
    for (int64_t n = 0; n < repeats[static_cast<size_t>(record)]; ++n) draws.push_back(record + n * num_records);
}

}  // namespace osprey::data
