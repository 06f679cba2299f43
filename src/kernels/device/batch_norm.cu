#include "kernels/device/batch_norm.h"
#include "kernels/device/channels.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

#define OSPREY_FOR_CURVE(T, kWidth, Curve)                       \
  OSPREY_FOR_GPU(ColumnSums<GradientMoments<T, kWidth, Curve>>); \
  OSPREY_FOR_GPU(Normalize<T, kWidth, Curve>);                   \
  OSPREY_FOR_GPU(GradientOfInput<T, kWidth, Curve>)
#define OSPREY_FOR_WIDTH(T, kWidth)                                 \
  OSPREY_FOR_GPU(ColumnSums<Moments<T, kWidth>>);                   \
  OSPREY_FOR_GPU(ColumnSums<SumGradientMoments<T, kWidth, false>>); \
  OSPREY_FOR_GPU(ColumnSums<SumGradientMoments<T, kWidth, true>>)
#define OSPREY_FOR_TYPE(T)                    \
  OSPREY_FOR_WIDTH(T, 1);                     \
  OSPREY_FOR_WIDTH(T, 16 / sizeof(T));        \
  OSPREY_FOR_CURVE(T, 1, AnyCurve);           \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), Clamp); \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), Swish); \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), HardSwish)

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);
OSPREY_FOR_GPU(AddParts<KeepSums>);
OSPREY_FOR_GPU(AddParts<Statistics>);
OSPREY_FOR_GPU(AddParts<InputCoefficients>);
OSPREY_FOR_GPU(AddParts<ParameterGradients>);
OSPREY_FOR_GPU(AddParts<Both<InputCoefficients, ParameterGradients>>);
OSPREY_FOR_GPU(AddParts<GradientsOfChannel>);
OSPREY_FOR_GPU(Each<ThroughStatisticsOf>);

}  // namespace osprey::kernels::device
