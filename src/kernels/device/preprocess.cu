#include "kernels/device/launch.cuh"
#include "kernels/device/preprocess.h"

namespace osprey::kernels::device {

#define OSPREY_FOR_TYPES(In, Out)            \
  OSPREY_FOR_GPU(ScalePictures<In, Out, 1>); \
  OSPREY_FOR_GPU(ScalePictures<In, Out, 8>); \
  OSPREY_FOR_GPU(ResizePictures<In, Out>)
#define OSPREY_FOR_INPUT(In)      \
  OSPREY_FOR_TYPES(In, float);    \
  OSPREY_FOR_TYPES(In, Bfloat16); \
  OSPREY_FOR_TYPES(In, Float16)

OSPREY_FOR_INPUT(uint8_t);
OSPREY_FOR_INPUT(float);

}  // namespace osprey::kernels::device
