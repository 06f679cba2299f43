// MobileNet v3, large and small, as detectors use it: the depths of the last blocks are halved.
// Howard et al., "Searching for MobileNetV3", ICCV 2019, tables 1 and 2 and section 6.3.
#include "nn/backbones/mobilenet_chain.h"

namespace osprey::nn {
namespace {

constexpr Activation kRelu = Activation::kRelu, kSwish = Activation::kHardSwish;

std::unique_ptr<Backbone> make_large(const BackboneOptions& options) {
  return make_mobilenet_chain("MobilenetV3",
                              {{0, 16, 3, 2, kSwish},
                               {1, 16, 3, 1},
                               {4, 24, 3, 2},
                               {3, 24, 3, 1},
                               {3, 40, 5, 2, kRelu, true},
                               {3, 40, 5, 1, kRelu, true},
                               {3, 40, 5, 1, kRelu, true},
                               {6, 80, 3, 2, kSwish},
                               {2.5, 80, 3, 1, kSwish},
                               {184 / 80.0, 80, 3, 1, kSwish},
                               {184 / 80.0, 80, 3, 1, kSwish},
                               {6, 112, 3, 1, kSwish, true},
                               {6, 112, 3, 1, kSwish, true},
                               {6, 80, 5, 2, kSwish, true},
                               {6, 80, 5, 1, kSwish, true},
                               {6, 80, 5, 1, kSwish, true},
                               {0, 480, 1, 1, kSwish}},
                              options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v3_large_detection", &make_large);

std::unique_ptr<Backbone> make_small(const BackboneOptions& options) {
  return make_mobilenet_chain("MobilenetV3",
                              {{0, 16, 3, 2, kSwish},
                               {1, 16, 3, 2, kRelu, true},
                               {72 / 16.0, 24, 3, 2},
                               {88 / 24.0, 24, 3, 1},
                               {4, 40, 5, 2, kSwish, true},
                               {6, 40, 5, 1, kSwish, true},
                               {6, 40, 5, 1, kSwish, true},
                               {3, 48, 5, 1, kSwish, true},
                               {3, 48, 5, 1, kSwish, true},
                               {6, 48, 5, 2, kSwish, true},
                               {6, 48, 5, 1, kSwish, true},
                               {6, 48, 5, 1, kSwish, true},
                               {0, 288, 1, 1, kSwish}},
                              options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobilenet_v3_small_detection", &make_small);

}  // namespace
}  // namespace osprey::nn
