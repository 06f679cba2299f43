#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cpu/loops/floats.h"

/// The numbers of a map as floats, which all arithmetic is done with: where they are floats in memory, too, they stay
/// where they are.
namespace osprey::kernels::cpu {

/// Memory that is written before it is read.
template <class T = float>
std::unique_ptr<T[]> scratch(int64_t count) {
  return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(count));
}

/// Some numbers of a map as floats: in `space`, unless they are in memory.
template <class T>
const float* floats_of(const T* numbers, int64_t count, float* space) {
  if constexpr (std::is_same_v<T, float>) {
    return numbers;
  } else {
    copy_floats(numbers, /*from_step=*/0, /*pieces=*/1, count, space, /*to_step=*/0);
    return space;
  }
}

/// Floats that are to become the numbers of a map: where those are floats, too, they are made in their places at once.
template <class T>
class Drafts {
 public:
  /// most  of them at a time
  explicit Drafts(int64_t most) {
    if constexpr (!kInPlace) memory_ = scratch(most);
  }
  /// Where to make those for the places from `place` on.
  float* of(T* place) const {
    if constexpr (kInPlace) return place;
    return memory_.get();
  }
  /// Brings them to their places.
  void write(int64_t count, T* place) const {
    if constexpr (!kInPlace) round_floats(memory_.get(), count, place);
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, float>;
  std::unique_ptr<float[]> memory_;
};

}  // namespace osprey::kernels::cpu
