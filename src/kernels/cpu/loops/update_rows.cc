#include "kernels/cpu/loops/update_rows.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Sums are made in so many lanes, which does not depend on the machine.
constexpr int64_t kLanes = 8;

OSPREY_INLINE void squares(const float* __restrict values, int64_t count, double* sum) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  for (; i < count; ++i) lanes[0] += double{values[i]} * double{values[i]};
  *sum = 0;
  for (const double lane : lanes) *sum += lane;
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

}  // namespace osprey::kernels::cpu
