#include "kernels/device/batch_norm.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

#define OSPREY_FOR_TYPE(T)                        \
  OSPREY_FOR_GPU(ColumnSums<Moments<T>>);         \
  OSPREY_FOR_GPU(ColumnSums<GradientMoments<T>>); \
  OSPREY_FOR_GPU(Normalize<T>);                   \
  OSPREY_FOR_GPU(GradientOfInput<T>)

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);
OSPREY_FOR_GPU(Each<AddParts>);
OSPREY_FOR_GPU(Each<Statistics>);
OSPREY_FOR_GPU(Each<GradientCoefficients>);
OSPREY_FOR_GPU(Each<ThroughStatisticsOf>);
OSPREY_FOR_GPU(Each<GradientsOfChannel>);

}  // namespace osprey::kernels::device
