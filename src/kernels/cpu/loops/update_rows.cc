#include "kernels/cpu/loops/update_rows.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Sums are made in so many lanes, which does not depend on the machine.
constexpr int64_t kLanes = 8;

/// The sum of the squares of value(i).
template <class Value>
OSPREY_INLINE double square_sum_of(int64_t count, Value value) {
  double lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double one = value(i + lane);
      lanes[lane] += one * one;
    }
  for (; i < count; ++i) {
    const double one = value(i);
    lanes[0] += one * one;
  }
  for (const double lane : lanes) sum += lane;
  return sum;
}

OSPREY_INLINE void squares(const float* __restrict values, int64_t count, double* sum) {
  *sum = square_sum_of(
      count, [&](int64_t i) __attribute__((always_inline)) { return values[i]; });
}

OSPREY_INLINE void finish(float* __restrict gradients, const float* __restrict values, int64_t count,
                          const GradientRule& given, double* sum) {
  const GradientRule rule = given;  // which lies in registers
  if (rule.penalises()) {
    *sum = square_sum_of(
        count, [&](int64_t i) __attribute__((always_inline)) { return gradients[i] = rule(gradients[i], values[i]); });
  } else {
    *sum = square_sum_of(
        count, [&](int64_t i) __attribute__((always_inline)) { return gradients[i] = rule(gradients[i]); });
  }
}

template <class Rule>
OSPREY_INLINE void update(float* __restrict values, const float* __restrict gradients, float* __restrict first,
                          float* __restrict second, int64_t count, const Rule& rule) {
  float unused = 0;
  for (int64_t i = 0; i < count; ++i)
    rule(values[i], gradients[i], Rule::kSlots > 0 ? first[i] : unused, Rule::kSlots > 1 ? second[i] : unused);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): Rule is a type
#define OSPREY_DISPATCH_RULE(Rule)                                                                                   \
  OSPREY_DISPATCH(                                                                                                   \
      update_rows, update,                                                                                           \
      (float* values, const float* gradients, float* first, float* second, int64_t count, const Rule& rule), values, \
      gradients, first, second, count, rule)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_RULE(MomentumRule)
OSPREY_DISPATCH_RULE(RmsPropRule<false>)
OSPREY_DISPATCH_RULE(RmsPropRule<true>)
OSPREY_DISPATCH_RULE(AdamRule)
OSPREY_DISPATCH_RULE(AverageRule)

OSPREY_DISPATCH(square_sum, squares, (const float* values, int64_t count, double* sum), values, count, sum)

OSPREY_DISPATCH(finish_rows, finish,
                (float* gradients, const float* values, int64_t count, const GradientRule& rule, double* sum),
                gradients, values, count, rule, sum)

}  // namespace osprey::kernels::cpu
