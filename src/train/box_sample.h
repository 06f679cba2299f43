#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "osprey/core/box.h"

namespace osprey::train {

/// Some of many boxes, chosen by their place in the data: in whatever order they come, the same are kept.
class BoxSample {
 public:
  explicit BoxSample(size_t most) : most_(most) {}

  /// record, box  where it stands, which no other box has
  void add(int64_t record, int64_t box, const Box& coordinates);
  std::vector<Box> boxes() const;

 private:
  using Entry = std::pair<uint64_t, Box>;
  size_t most_;
  std::vector<Entry> kept_;  // a heap, the largest number first
};

}  // namespace osprey::train
