#include "kernels/device/boxes.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(Each<ClassRows>);
OSPREY_FOR_GPU(Each<AnchorTargets>);
OSPREY_FOR_GPU(Each<DecodeBox>);
OSPREY_FOR_GPU(Each<DecodeBoxBackward>);
OSPREY_FOR_GPU(Each<BoxLoss<SmoothL1Form, WrittenCodes>>);
OSPREY_FOR_GPU(Each<BoxLoss<SmoothL1Form, MatchedCodes>>);
OSPREY_FOR_GPU(Each<BoxLoss<GiouForm, WrittenCodes>>);

}  // namespace osprey::kernels::device
