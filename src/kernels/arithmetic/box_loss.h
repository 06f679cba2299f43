#pragma once
#include "kernels/arithmetic/inline.h"

/// Losses of one anchor's box, with their derivatives by the prediction.
namespace osprey::kernels {

/// Huber's loss, summed over the codes.
struct SmoothL1Form {
  float delta;
  OSPREY_INLINE float operator()(const float* prediction, const float* target, int size, float* slope) const {
    float sum = 0;
    for (int k = 0; k < size; ++k) {
      const float d = prediction[k] - target[k], distance = d < 0 ? -d : d;
      const bool near = distance < delta;
      sum += near ? 0.5f * d * d : delta * (distance - 0.5f * delta);
      slope[k] = near ? d : d < 0 ? -delta : d > 0 ? delta : d;  // the last of them: not a number
    }
    return sum;
  }
};

/// 1 - generalised intersection over union of two boxes [ymin, xmin, ymax, xmax]. On a tie of corners the whole slope
/// is the prediction's; where the union is zero its quotient counts as zero, without slope; and where the area around
/// both is not positive, as between flipped corners, the loss is 1 without slope: all as in TensorFlow.
struct GiouForm {
  OSPREY_INLINE float operator()(const float* p, const float* t, int, float* slope) const {
    // One side after the other: what the boxes share, the prediction's own, and what encloses both.
    float common[2], own[2], hull[2], low_common[2], high_common[2], low_hull[2], high_hull[2];
    for (int side = 0; side < 2; ++side) {
      const float low = p[side], high = p[side + 2], target_low = t[side], target_high = t[side + 2];
      const float length = (high <= target_high ? high : target_high) - (low >= target_low ? low : target_low);
      common[side] = length < 0 ? 0 : length;
      low_common[side] = length > 0 && low >= target_low ? -1.0f : 0.0f;
      high_common[side] = length > 0 && high <= target_high ? 1.0f : 0.0f;
      own[side] = high - low;
      hull[side] = (high >= target_high ? high : target_high) - (low <= target_low ? low : target_low);
      low_hull[side] = low <= target_low ? -1.0f : 0.0f;
      high_hull[side] = high >= target_high ? 1.0f : 0.0f;
    }
    const float enclosing = hull[0] * hull[1];
    if (enclosing <= 0) {
      for (int k = 0; k < 4; ++k) slope[k] = 0;
      return 1;
    }
    const float both = common[0] * common[1];
    const float joined = own[0] * own[1] + (t[2] - t[0]) * (t[3] - t[1]) - both;
    const float by_joined = joined == 0 ? 0 : 1 / joined, by_enclosing = 1 / enclosing;
    for (int k = 0; k < 4; ++k) {
      const int side = k % 2;
      const bool is_low = k < 2;
      const float of_both = (is_low ? low_common[side] : high_common[side]) * common[1 - side];
      const float of_joined = (is_low ? -own[1 - side] : own[1 - side]) - of_both;
      const float of_enclosing = (is_low ? low_hull[side] : high_hull[side]) * hull[1 - side];
      const float of_iou = (of_both - both * by_joined * of_joined) * by_joined;
      const float of_gap =
          (of_enclosing - of_joined - (enclosing - joined) * by_enclosing * of_enclosing) * by_enclosing;
      slope[k] = of_gap - of_iou;
    }
    return 1 - both * by_joined + (enclosing - joined) * by_enclosing;
  }
};

}  // namespace osprey::kernels
