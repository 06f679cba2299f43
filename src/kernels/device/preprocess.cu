#include "kernels/device/launch.cuh"
#include "kernels/device/preprocess.h"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(Each<Preprocess<uint8_t, float>>);
OSPREY_FOR_GPU(Each<Preprocess<uint8_t, Bfloat16>>);
OSPREY_FOR_GPU(Each<Preprocess<uint8_t, Float16>>);
OSPREY_FOR_GPU(Each<Preprocess<float, float>>);
OSPREY_FOR_GPU(Each<Preprocess<float, Bfloat16>>);
OSPREY_FOR_GPU(Each<Preprocess<float, Float16>>);

}  // namespace osprey::kernels::device
