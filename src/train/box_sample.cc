#include "train/box_sample.h"

#include <algorithm>

#include "osprey/data/random.h"

namespace osprey::train {

void BoxSample::add(int64_t record, int64_t box, const Box& coordinates) {
  const auto place = static_cast<uint64_t>(record);
  const auto words = data::philox(
      {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), static_cast<uint32_t>(box), 0}, {});
  const uint64_t number = uint64_t{words[0]} << 32 | words[1];
  if (kept_.size() == most_ && number >= kept_.front().first) return;
  kept_.emplace_back(number, coordinates);
  std::ranges::push_heap(kept_, {}, &Entry::first);
  if (kept_.size() <= most_) return;
  std::ranges::pop_heap(kept_, {}, &Entry::first);
  kept_.pop_back();
}

std::vector<Box> BoxSample::boxes() const {
  std::vector<Entry> sorted = kept_;
  std::ranges::sort(sorted, {}, &Entry::first);
  std::vector<Box> result;
  for (const auto& [number, box] : sorted) result.push_back(box);
  return result;
}

}  // namespace osprey::train
