#pragma once
#include "kernels/arithmetic/number.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// Pictures into what a network takes: value * scale + offset of each channel, and the padding. Of each place.
template <class In, class Out>
struct Preprocess {
  struct Channels {
    float scale[3], offset[3], pad[3];
  };

  const In* images;            ///< [B, H, W, 3]
  const int64_t* true_shapes;  ///< [B, shape_stride]: height, width of what is no padding; null: all of it
  int64_t shape_stride, height, width;
  Channels channels;
  Out* result;  ///< like the images

  OSPREY_INLINE void operator()(int64_t place) const {
    const int64_t x = place % width, y = place / width % height, image = place / (width * height);
    const bool inside =
        true_shapes == nullptr || (y < true_shapes[image * shape_stride] && x < true_shapes[image * shape_stride + 1]);
    for (int c = 0; c < 3; ++c)
      store(result + place * 3 + c,
            inside ? load(images + place * 3 + c) * channels.scale[c] + channels.offset[c] : channels.pad[c]);
  }
};

}  // namespace osprey::kernels::device
