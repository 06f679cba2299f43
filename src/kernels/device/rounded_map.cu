#include "kernels/device/launch.cuh"
#include "kernels/device/rounded_map.h"

namespace osprey::kernels::device {

#define OSPREY_FOR_WIDTH(T, kWidth)                                    \
  OSPREY_FOR_GPU(RangeOfMap<T, kWidth>);                               \
  OSPREY_FOR_GPU(ColumnSums<GradientMoments<T, kWidth, CurveOfGrid>>); \
  OSPREY_FOR_GPU(Normalize<T, kWidth, CurveOfGrid>);                   \
  OSPREY_FOR_GPU(GradientOfInput<T, kWidth, CurveOfGrid>)
#define OSPREY_FOR_TYPE(T) \
  OSPREY_FOR_WIDTH(T, 1);  \
  OSPREY_FOR_WIDTH(T, 16 / sizeof(T))

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);
OSPREY_FOR_GPU(RangeOfParts);
OSPREY_FOR_GPU(Each<MakeRounding>);

}  // namespace osprey::kernels::device
