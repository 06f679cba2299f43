#include "kernels/device/class_loss.h"
#include "kernels/device/launch.cuh"

namespace osprey::kernels::device {

#define OSPREY_FOR_CLASSES(...)              \
  OSPREY_FOR_GPU(SigmoidFocal<__VA_ARGS__>); \
  OSPREY_FOR_GPU(SoftmaxCrossEntropy<__VA_ARGS__>)
#define OSPREY_FOR_ELEMENT(T)            \
  OSPREY_FOR_CLASSES(T, PairsOfClasses); \
  OSPREY_FOR_CLASSES(T, SingleClasses);  \
  OSPREY_FOR_CLASSES(T, FewClasses);     \
  OSPREY_FOR_GPU(Each<SlopesTimesFactors<T>>)

OSPREY_FOR_ELEMENT(float);
OSPREY_FOR_ELEMENT(Bfloat16);
OSPREY_FOR_ELEMENT(Float16);

}  // namespace osprey::kernels::device
