#pragma once
#include <cstdint>

#include "kernels/arithmetic/update.h"

/// The inner loops over all parameters, compiled for several instruction sets of which the best that the machine has is
/// taken.
namespace osprey::kernels::cpu {

/// `values` are `count` numbers of a parameter, `gradients` theirs, `first` and `second` what the rule keeps of each;
/// null where it keeps less.
void update_rows(float* values, const float* gradients, float* first, float* second, int64_t count,
                 const MomentumRule& rule);
void update_rows(float* values, const float* gradients, float* first, float* second, int64_t count,
                 const RmsPropRule<false>& rule);
void update_rows(float* values, const float* gradients, float* first, float* second, int64_t count,
                 const RmsPropRule<true>& rule);
void update_rows(float* values, const float* gradients, float* first, float* second, int64_t count,
                 const AdamRule& rule);
void update_rows(float* values, const float* gradients, float* first, float* second, int64_t count,
                 const AverageRule& rule);

/// The sum of the squares of some numbers, in double: finite exactly where all of them are.
void square_sum(const float* values, int64_t count, double* sum);

/// Puts gradients through the rule, in place; their `values` are read where the rule penalises them. `sum` gets the sum
/// of the squares of what comes of them, as `square_sum` makes it, `penalty` that of the values' penalties.
void finish_rows(float* gradients, const float* values, int64_t count, const GradientRule& rule, double* sum,
                 double* penalty);

}  // namespace osprey::kernels::cpu
