#include "kernels/device/launch.cuh"
#include "kernels/device/squeeze_excite.h"

namespace osprey::kernels::device {

#define OSPREY_FOR_CURVE(T, kWidth, Curve)                                      \
  OSPREY_FOR_GPU(PictureSums<ValueSums<T, kWidth, Curve>>);                     \
  OSPREY_FOR_GPU(PictureSums<PictureGradients<T, kWidth, Curve, ThroughGate>>); \
  OSPREY_FOR_GPU(PictureSums<PictureGradients<T, kWidth, Curve, ThroughMean>>); \
  OSPREY_FOR_GPU(Gate<T, kWidth, Curve>)
#define OSPREY_FOR_TYPE(T)                    \
  OSPREY_FOR_CURVE(T, 1, AnyCurve);           \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), Clamp); \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), Swish); \
  OSPREY_FOR_CURVE(T, 16 / sizeof(T), HardSwish)

OSPREY_FOR_TYPE(float);
OSPREY_FOR_TYPE(Bfloat16);
OSPREY_FOR_TYPE(Float16);

}  // namespace osprey::kernels::device
