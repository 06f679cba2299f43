#include "kernels/device/launch.cuh"
#include "kernels/device/max_pool.h"

namespace osprey::kernels::device {

#define OSPREY_FOR_WIDTH(T, kWidth)                 \
  OSPREY_FOR_GPU(Each<MaxPool<T, kWidth, 0>>);      \
  OSPREY_FOR_GPU(Each<MaxPool<T, kWidth, 3>>);      \
  OSPREY_FOR_GPU(Each<MaxPoolGradient<T, kWidth>>); \
  OSPREY_FOR_GPU(Each<MaxPoolGradientByTwo<T, kWidth>>)
#define OSPREY_FOR_TYPE(T) \
  OSPREY_FOR_WIDTH(T, 1);  \
  OSPREY_FOR_WIDTH(T, 16 / sizeof(T))

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);

}  // namespace osprey::kernels::device
