#pragma once
#include <type_traits>

#include "kernels/device/map_rows.h"

/// Slopes: the gradients of losses that come with these, and what they become when the gradient of the loss is known.
namespace osprey::kernels::device {

/// The type of the slopes of logits of type T. They are multiplied by the loss scale of float16 later, and would vanish
/// before that.
template <class T>
using SlopeOf = std::conditional_t<std::is_same_v<T, Float16>, float, T>;

/// Gradients of logits, or of boxes: the slopes of each anchor times the gradient of its loss. Of some neighbours.
template <class T>
struct SlopesTimesFactors {
  static constexpr int kWidth = 16 / sizeof(SlopeOf<T>);
  const SlopeOf<T>* slopes;  ///< [rows, K]
  const float* factors;      ///< [rows]
  Divisor K;
  int64_t count;  ///< rows * K
  bool at_once;   ///< whether kWidth of either may be read or written at once
  T* gradients;   ///< [rows, K]; may be the slopes

  OSPREY_INLINE void operator()(int64_t number) const {
    const int64_t first = number * kWidth;
    if (!at_once || K < kWidth || first + kWidth > count) {
      const int64_t end = first + kWidth < count ? first + kWidth : count;
      for (int64_t i = first; i < end; ++i) store(gradients + i, load(slopes + i) * factors[Split(i, K).quotient]);
      return;
    }
    const auto own = read<kWidth>(slopes + first);
    const Split start(first, K);
    const int of_row = static_cast<int>(K - start.rest < kWidth ? K - start.rest : kWidth);  // the others: of the next
    const float factor = factors[start.quotient], next = of_row < kWidth ? factors[start.quotient + 1] : 0.0f;
    float values[kWidth];
    OSPREY_UNROLL
    for (int i = 0; i < kWidth; ++i) values[i] = own[i] * (i < of_row ? factor : next);
    write(gradients + first, values);
  }
};

}  // namespace osprey::kernels::device
