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

}  // namespace osprey::kernels::cpu
