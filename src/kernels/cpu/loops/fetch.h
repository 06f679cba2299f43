#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/arithmetic/inline.h"
#include "kernels/cpu/loops/product_panels.h"

namespace osprey::kernels::cpu {

/// Memory fetched a little with each of about so many calls, in the course of a product. (All at once, fetching would
/// keep the loads of the product itself waiting.)
class Fetch {
 public:
  /// instead  some memory, for where there is nothing to be fetched
  OSPREY_INLINE Fetch(const Ahead& ahead, int64_t calls, const float* instead)
      : next_(ahead.size > 0 ? ahead.from : instead), end_(next_ + ahead.size) {
    if (calls > 0) floats_ = std::min((ahead.size + calls - 1) / calls, kLine);
  }
  OSPREY_INLINE void step() {
    __builtin_prefetch(next_, 0, 2);
    next_ += next_ < end_ ? floats_ : 0;
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a line of the cache
  const float *next_, *end_;
  int64_t floats_ = 0;
};

/// The panels of a matrix, of which some at a time pass by.
struct PassingPanels {
  const float* first;
  int64_t size, count;  ///< floats of a panel, panels
  int64_t at_a_time;

  /// Whether they pass by once each; smaller matrices may be expected to stay in the core's own cache.
  OSPREY_INLINE bool large() const {
    constexpr int64_t kStays = 128 << 10;  // floats
    return count * size > kStays;
  }
  /// What is to be fetched as those from `panel` on pass by: of a large matrix the next ones, and only in the end what
  /// comes after it.
  OSPREY_INLINE Ahead next(int64_t panel, const Ahead& after) const {
    const int64_t next = panel + at_a_time;
    return large() && next < count ? Ahead{first + next * size, at_a_time * size} : after;
  }
};

}  // namespace osprey::kernels::cpu
