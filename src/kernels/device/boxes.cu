#include "kernels/device/boxes.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(EncodeMatched);
OSPREY_FOR_GPU(BoxLoss<SmoothL1Form>);
OSPREY_FOR_GPU(BoxLoss<GiouForm>);

}  // namespace osprey::kernels::device
