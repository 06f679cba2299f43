#include "kernels/device/launch.cuh"
#include "kernels/device/max_pool.h"

namespace osprey::kernels::device {

#define OSPREY_FOR_TYPE(T)                                  \
  OSPREY_FOR_GPU(Each<MaxPool<T, 1>>);                      \
  OSPREY_FOR_GPU(Each<MaxPool<T, 16 / sizeof(T)>>);         \
  OSPREY_FOR_GPU(Each<MaxPoolGradient<T, 1>>);              \
  OSPREY_FOR_GPU(Each<MaxPoolGradient<T, 16 / sizeof(T)>>); \
  OSPREY_FOR_GPU(Each<MaxPoolByTwo<T, 1>>);                 \
  OSPREY_FOR_GPU(Each<MaxPoolByTwo<T, 16 / sizeof(T)>>);    \
  OSPREY_FOR_GPU(Each<MaxPoolGradientByTwo<T, 1>>);         \
  OSPREY_FOR_GPU(Each<MaxPoolGradientByTwo<T, 16 / sizeof(T)>>)

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);

}  // namespace osprey::kernels::device
