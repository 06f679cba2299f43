#include "train/box_sample.h"

#include <algorithm>

namespace osprey::train {
namespace {

/// Numbers without an order, the same for the same place. Steele et al., "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014, figure 16.
uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void BoxSample::add(int64_t record, int64_t box, const Box& coordinates) {
  const uint64_t number = mixed(mixed(static_cast<uint64_t>(record) + 1) + static_cast<uint64_t>(box));
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
