#include "kernels/device/launch.cuh"
#include "kernels/device/match_anchors.h"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(MatchAnchors);
OSPREY_FOR_GPU(ForceMatch);

}  // namespace osprey::kernels::device
