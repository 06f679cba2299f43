#pragma once
#include "kernels/arithmetic/number.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// Where a place of the result lies between two of the source.
struct Between {
  int64_t lower, upper;
  float weight;  ///< of the upper

  OSPREY_INLINE Between(int64_t place, int64_t from, int64_t to) {
    const float at = static_cast<float>(place) * (static_cast<float>(from) / static_cast<float>(to));
    lower = static_cast<int64_t>(at);
    weight = at - static_cast<float>(lower);
    lower = lower < from ? lower : from - 1;
    upper = lower + 1 < from ? lower + 1 : lower;
  }
};

/// Pictures into what a network takes: resizing, value * scale + offset of each channel, and the padding. Of each
/// place.
template <class In, class Out>
struct Preprocess {
  struct Channels {
    float scale[3], offset[3], pad[3];
  };

  const In* images;              ///< [B, source_height, source_width, 3]
  const int64_t* true_shapes;    ///< [B, shape_stride]: height, width of what is no padding; null: all of it
  const int64_t* source_shapes;  ///< [B, 2]: of the pictures before they are resized; null: they are not
  int64_t shape_stride, source_height, source_width, height, width;
  Channels channels;
  Out* result;  ///< [B, height, width, 3]

  OSPREY_INLINE void operator()(int64_t place) const {
    const Split line(place, width), picture_of(line.quotient, height);
    const int64_t x = line.rest, y = picture_of.rest, image = picture_of.quotient;
    const int64_t content_height = true_shapes == nullptr ? height : true_shapes[image * shape_stride],
                  content_width = true_shapes == nullptr ? width : true_shapes[image * shape_stride + 1];
    if (y >= content_height || x >= content_width) {
      for (int c = 0; c < 3; ++c) store(result + place * 3 + c, channels.pad[c]);
      return;
    }
    const In* const picture = images + image * source_height * source_width * 3;
    if (source_shapes == nullptr) {
      put(place, pixel(picture + (y * width + x) * 3));
      return;
    }
    const Between row(y, source_shapes[image * 2], content_height),
        column(x, source_shapes[image * 2 + 1], content_width);
    const auto at = [&](int64_t i, int64_t j) { return pixel(picture + (i * source_width + j) * 3); };
    const Pixel upper_left = at(row.lower, column.lower), lower_left = at(row.upper, column.lower),
                upper_right = at(row.lower, column.upper), lower_right = at(row.upper, column.upper);
    put(place, between(between(upper_left, lower_left, row.weight), between(upper_right, lower_right, row.weight),
                       column.weight));
  }

 private:
  /// All that is read is read before anything is written.
  struct Pixel {
    float of[3];
  };
  static OSPREY_INLINE Pixel pixel(const In* at) { return {load(at), load(at + 1), load(at + 2)}; }
  static OSPREY_INLINE Pixel between(const Pixel& a, const Pixel& b, float weight) {
    Pixel result;
    for (int c = 0; c < 3; ++c) result.of[c] = a.of[c] + (b.of[c] - a.of[c]) * weight;
    return result;
  }
  OSPREY_INLINE void put(int64_t place, const Pixel& pixel) const {
    for (int c = 0; c < 3; ++c) store(result + place * 3 + c, pixel.of[c] * channels.scale[c] + channels.offset[c]);
  }
};

}  // namespace osprey::kernels::device
