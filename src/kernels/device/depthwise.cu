#include "kernels/device/depthwise.h"
#include "kernels/device/depthwise_weights.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

#define OSPREY_FOR_KERNEL(T, kKernel)                 \
  OSPREY_FOR_GPU(DepthwiseForward<T, kKernel, 1>);    \
  OSPREY_FOR_GPU(DepthwiseForward<T, kKernel, 2>);    \
  OSPREY_FOR_GPU(DepthwiseGradientByTwo<T, kKernel>); \
  OSPREY_FOR_GPU(DepthwiseWeightSums<T, kKernel, 1>); \
  OSPREY_FOR_GPU(DepthwiseWeightSums<T, kKernel, 2>)
#define OSPREY_FOR_TYPE(T) \
  OSPREY_FOR_KERNEL(T, 3); \
  OSPREY_FOR_KERNEL(T, 5)

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);

}  // namespace osprey::kernels::device
