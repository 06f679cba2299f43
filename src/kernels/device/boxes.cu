#include "kernels/device/boxes.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(TwoKernels<Each<ClassRows>, EachAnchor<AnchorTargets>>);
OSPREY_FOR_GPU(EachAnchor<DecodeBox>);
OSPREY_FOR_GPU(EachAnchor<DecodeBoxBackward>);
OSPREY_FOR_GPU(EachAnchor<BoxLoss<SmoothL1Form, WrittenCodes>>);
OSPREY_FOR_GPU(EachAnchor<BoxLoss<SmoothL1Form, MatchedCodes>>);
OSPREY_FOR_GPU(EachAnchor<BoxLoss<GiouForm, WrittenCodes>>);
OSPREY_FOR_GPU(Each<CodeLoss<SmoothL1Form>>);

}  // namespace osprey::kernels::device
