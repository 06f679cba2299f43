#include "kernels/device/launch.cuh"
#include "kernels/device/non_max_suppression.h"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(SuppressClass);
OSPREY_FOR_GPU(FadeClass);
OSPREY_FOR_GPU(Each<BestClass>);
OSPREY_FOR_GPU(MergeClasses);

}  // namespace osprey::kernels::device
