#pragma once
#include <cstdint>

/// The inner loops of the optimizers, compiled for several instruction sets of which the best that the machine has is
/// taken. `values` are `count` numbers of a parameter, `gradients` theirs, the other arrays what the optimizer keeps.
namespace osprey::kernels::cpu {

/// a <- momentum a + gradient_factor g,  w <- w + value_factor a
void momentum_rows(float* values, const float* gradients, float* accumulators, int64_t count, float momentum,
                   float gradient_factor, float value_factor);

/// s <- rho s + (1 - rho) g^2,  a <- momentum a + rate g / root,  w <- w - a, where root is sqrt(s + epsilon), or
/// sqrt(s) + epsilon with `epsilon_outside`
void rms_prop_rows(float* values, const float* gradients, float* squares, float* accumulators, int64_t count, float rho,
                   float momentum, float rate, float epsilon, bool epsilon_outside);

/// m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  w <- w - rate m / (sqrt(v) + epsilon)
void adam_rows(float* values, const float* gradients, float* means, float* variances, int64_t count, float beta1,
               float beta2, float rate, float epsilon);

}  // namespace osprey::kernels::cpu
