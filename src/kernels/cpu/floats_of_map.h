#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "kernels/cpu/loops/floats.h"

/// The numbers of a map as floats, which all arithmetic is done with: where they are floats in memory, too, they stay
/// where they are.
namespace osprey::kernels::cpu {

/// Memory that begins with a line of the cache: what fills a register lies in one line, not in two.
struct Aligned {
  static constexpr std::align_val_t kTo{64};
  void operator()(void* memory) const { ::operator delete(memory, kTo); }
};
template <class T = float>
using Scratch = std::unique_ptr<T[], Aligned>;

/// Memory that is written before it is read.   T  a plain number
template <class T = float>
Scratch<T> scratch(int64_t count) {
  return Scratch<T>(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), Aligned::kTo)));
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
  Scratch<> memory_;
};

}  // namespace osprey::kernels::cpu
