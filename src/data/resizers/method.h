#pragma once
#include "osprey/config/node.h"
#include "osprey/data/resize.h"
#include "osprey/protos/image_resizer.pb.h"

namespace osprey::data {

inline ResizeMethod method_of(proto::ResizeType type) {
  switch (type) {
    case proto::NEAREST_NEIGHBOR:
      return ResizeMethod::kNearest;
    case proto::BICUBIC:
      return ResizeMethod::kBicubic;
    case proto::AREA:
      return ResizeMethod::kArea;
    default:
      return ResizeMethod::kBilinear;
  }
}

}  // namespace osprey::data
