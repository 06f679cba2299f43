#include "kernels/cpu/loops/update_rows.h"

#include <cmath>

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

OSPREY_INLINE void momentum_loop(float* __restrict values, const float* __restrict gradients,
                                 float* __restrict accumulators, int64_t count, float momentum, float gradient_factor,
                                 float value_factor) {
  for (int64_t i = 0; i < count; ++i) {
    accumulators[i] = momentum * accumulators[i] + gradient_factor * gradients[i];
    values[i] += value_factor * accumulators[i];
  }
}

template <class Root>
OSPREY_INLINE void rms_prop_elements(float* __restrict values, const float* __restrict gradients,
                                     float* __restrict squares, float* __restrict accumulators, int64_t count,
                                     float rho, float momentum, float rate, Root root) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    squares[i] = rho * squares[i] + (1.0f - rho) * g * g;
    accumulators[i] = momentum * accumulators[i] + rate * g / root(squares[i]);
    values[i] -= accumulators[i];
  }
}

OSPREY_INLINE void rms_prop_loop(float* values, const float* gradients, float* squares, float* accumulators,
                                 int64_t count, float rho, float momentum, float rate, float epsilon,
                                 bool epsilon_outside) {
  if (epsilon_outside) {
    rms_prop_elements(
        values, gradients, squares, accumulators, count, rho, momentum,
        rate, [=](float s) __attribute__((always_inline)) { return std::sqrt(s) + epsilon; });
  } else {
    rms_prop_elements(
        values, gradients, squares, accumulators, count, rho, momentum,
        rate, [=](float s) __attribute__((always_inline)) { return std::sqrt(s + epsilon); });
  }
}

OSPREY_INLINE void adam_loop(float* __restrict values, const float* __restrict gradients, float* __restrict means,
                             float* __restrict variances, int64_t count, float beta1, float beta2, float rate,
                             float epsilon) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    means[i] = beta1 * means[i] + (1.0f - beta1) * g;
    variances[i] = beta2 * variances[i] + (1.0f - beta2) * g * g;
    values[i] -= rate * means[i] / (std::sqrt(variances[i]) + epsilon);
  }
}

}  // namespace

OSPREY_DISPATCH(momentum_rows, momentum_loop,
                (float* values, const float* gradients, float* accumulators, int64_t count, float momentum,
                 float gradient_factor, float value_factor),
                values, gradients, accumulators, count, momentum, gradient_factor, value_factor)
OSPREY_DISPATCH(rms_prop_rows, rms_prop_loop,
                (float* values, const float* gradients, float* squares, float* accumulators, int64_t count, float rho,
                 float momentum, float rate, float epsilon, bool epsilon_outside),
                values, gradients, squares, accumulators, count, rho, momentum, rate, epsilon, epsilon_outside)
OSPREY_DISPATCH(adam_rows, adam_loop,
                (float* values, const float* gradients, float* means, float* variances, int64_t count, float beta1,
                 float beta2, float rate, float epsilon),
                values, gradients, means, variances, count, beta1, beta2, rate, epsilon)

}  // namespace osprey::kernels::cpu
