#include "kernels/cpu/loops/update_rows.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Sums are made in so many lanes, which does not depend on the machine.
constexpr int64_t kLanes = 8;

/// The sum of value(i).
template <class Value>
OSPREY_INLINE double sum_of(int64_t count, Value value) {
  double lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  for (; i < count; ++i) lanes[0] += value(i);
  for (const double lane : lanes) sum += lane;
  return sum;
}

OSPREY_INLINE double square(double number) { return number * number; }

/// Calls work(first, number) for pieces that stay in the nearest cache while one sum after the other is made of them.
template <class Work>
OSPREY_INLINE void for_pieces(int64_t count, Work work) {
  constexpr int64_t kNear = 2048;
  for (int64_t first = 0; first < count; first += kNear) work(first, count - first < kNear ? count - first : kNear);
}

OSPREY_INLINE double squares_of(const float* __restrict values, int64_t count) {
  return sum_of(
      count, [&](int64_t i) __attribute__((always_inline)) { return square(values[i]); });
}

/// The sum of the squares of what becomes of gradients.
OSPREY_INLINE double divide(float* __restrict gradients, int64_t count, const GradientRule& rule) {
  return sum_of(
      count, [&](int64_t i) __attribute__((always_inline)) { return square(gradients[i] = rule(gradients[i])); });
}
OSPREY_INLINE double penalise(float* __restrict gradients, const float* __restrict values, int64_t count,
                              const GradientRule& rule) {
  return sum_of(
      count, [&](int64_t i)
                 __attribute__((always_inline)) { return square(gradients[i] = rule(gradients[i], values[i])); });
}

OSPREY_INLINE double penalties_of(const float* __restrict values, int64_t count, const GradientRule& rule) {
  return sum_of(
      count, [&](int64_t i) __attribute__((always_inline)) { return rule.penalty(values[i]); });
}

OSPREY_INLINE void squares(const float* values, int64_t count, double* sum) {
  *sum = 0;
  for_pieces(
      count, [=](int64_t first, int64_t number)
                 __attribute__((always_inline)) { *sum += squares_of(values + first, number); });
}

OSPREY_INLINE void finish(float* gradients, const float* values, int64_t count, const GradientRule& given, double* sum,
                          double* penalty) {
  const GradientRule rule = given;  // which lies in registers
  *sum = *penalty = 0;
  for_pieces(
      count, [=](int64_t first, int64_t number) __attribute__((always_inline)) {
        if (rule.penalises()) {
          *sum += penalise(gradients + first, values + first, number, rule);
          *penalty += penalties_of(values + first, number, rule);
        } else {
          *sum += divide(gradients + first, number, rule);
        }
      });
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
                (float* gradients, const float* values, int64_t count, const GradientRule& rule, double* sum,
                 double* penalty),
                gradients, values, count, rule, sum, penalty)

}  // namespace osprey::kernels::cpu
