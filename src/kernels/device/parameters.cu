#include "kernels/device/launch.cuh"
#include "kernels/device/parameters.h"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(Update<MomentumRule>);
OSPREY_FOR_GPU(Update<RmsPropRule<false>>);
OSPREY_FOR_GPU(Update<RmsPropRule<true>>);
OSPREY_FOR_GPU(Update<AdamRule>);
OSPREY_FOR_GPU(Update<AverageRule>);
OSPREY_FOR_GPU(SquareSums);
OSPREY_FOR_GPU(FinishGradients);
OSPREY_FOR_GPU(Norms);
OSPREY_FOR_GPU(Scale);

}  // namespace osprey::kernels::device
