#include "kernels/device/class_loss.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

OSPREY_FOR_GPU(SigmoidFocal<float>);
OSPREY_FOR_GPU(SigmoidFocal<Bfloat16>);
OSPREY_FOR_GPU(SigmoidFocal<Float16>);
OSPREY_FOR_GPU(Each<SlopesTimesFactors<float>>);
OSPREY_FOR_GPU(Each<SlopesTimesFactors<Bfloat16>>);
OSPREY_FOR_GPU(Each<SlopesTimesFactors<Float16>>);
OSPREY_FOR_GPU(SoftmaxCrossEntropy<float>);
OSPREY_FOR_GPU(SoftmaxCrossEntropy<Bfloat16>);
OSPREY_FOR_GPU(SoftmaxCrossEntropy<Float16>);

}  // namespace osprey::kernels::device
