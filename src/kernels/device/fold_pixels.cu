#include "kernels/device/fold_pixels.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(Each<FoldPixels<float>>);
OSPREY_FOR_GPU(Each<FoldPixels<Bfloat16>>);
OSPREY_FOR_GPU(Each<FoldPixels<Float16>>);

}  // namespace osprey::kernels::device
