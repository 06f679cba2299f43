#pragma once
#include "kernels/device/map_rows.h"

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

/// Pictures into what a network takes: resizing, value * scale + offset of each channel, and the padding. Of a few
/// neighbouring places, whose numbers fill whole words.
template <class In, class Out>
struct Preprocess {
  static constexpr int kPlaces = 4, kWords = 3;
  struct Channels {
    float scale[3], offset[3], pad[3];
  };

  const In* images;              ///< [B, source_height, source_width, 3]
  const int64_t* true_shapes;    ///< [B, shape_stride]: height, width of what is no padding; null: all of it
  const int64_t* source_shapes;  ///< [B, 2]: of the pictures before they are resized; null: they are not
  int64_t shape_stride, source_height, source_width, height, width;
  int64_t places;  ///< of all results
  bool at_once;    ///< whether kPlaces numbers of images and of the result may be read and written at once
  Channels channels;
  Out* result;  ///< [B, height, width, 3]

  OSPREY_INLINE void operator()(int64_t number) const {
    const int64_t first = number * kPlaces;
    const int count = static_cast<int>(places - first < kPlaces ? places - first : kPlaces);
    const bool whole = at_once && count == kPlaces;
    float values[kWords][kPlaces] = {};
    if (source_shapes == nullptr) read_places(first, count, whole, values);
    const Split line(first, width), picture_of(line.quotient, height);
    int64_t x = line.rest, y = picture_of.rest, image = picture_of.quotient;
    OSPREY_UNROLL
    for (int i = 0; i < kPlaces; ++i) {
      if (i >= count) continue;
      Pixel pixel;
      OSPREY_UNROLL
      for (int c = 0; c < 3; ++c) pixel.of[c] = values[(i * 3 + c) / kPlaces][(i * 3 + c) % kPlaces];
      pixel = finished(image, y, x, pixel);
      OSPREY_UNROLL
      for (int c = 0; c < 3; ++c) values[(i * 3 + c) / kPlaces][(i * 3 + c) % kPlaces] = pixel.of[c];
      if (++x < width) continue;
      x = 0;
      if (++y < height) continue;
      y = 0;
      ++image;
    }
    OSPREY_UNROLL
    for (int word = 0; word < kWords; ++word) {
      Out* const to = result + first * 3 + word * kPlaces;
      if (whole) {
        write(to, values[word]);
      } else {
        for (int k = 0; k < kPlaces && word * kPlaces + k < count * 3; ++k) store(to + k, values[word][k]);
      }
    }
  }

 private:
  struct Pixel {
    float of[3];
  };

  /// Where pictures are not resized, places lie as in the result.
  OSPREY_INLINE void read_places(int64_t first, int count, bool whole, float (&values)[kWords][kPlaces]) const {
    OSPREY_UNROLL
    for (int word = 0; word < kWords; ++word) {
      const In* const from = images + first * 3 + word * kPlaces;
      if (whole) {
        const auto numbers = read<kPlaces>(from);
        OSPREY_UNROLL
        for (int k = 0; k < kPlaces; ++k) values[word][k] = numbers[k];
      } else {
        for (int k = 0; k < kPlaces && word * kPlaces + k < count * 3; ++k) values[word][k] = load(from + k);
      }
    }
  }

  /// What becomes of a place.   here  what lies there, where pictures are not resized
  OSPREY_INLINE Pixel finished(int64_t image, int64_t y, int64_t x, Pixel here) const {
    const int64_t content_height = true_shapes == nullptr ? height : true_shapes[image * shape_stride],
                  content_width = true_shapes == nullptr ? width : true_shapes[image * shape_stride + 1];
    if (y >= content_height || x >= content_width) return {channels.pad[0], channels.pad[1], channels.pad[2]};
    if (source_shapes != nullptr)
      here = resized(image, {y, source_shapes[image * 2], content_height},
                     {x, source_shapes[image * 2 + 1], content_width});
    for (int c = 0; c < 3; ++c) here.of[c] = here.of[c] * channels.scale[c] + channels.offset[c];
    return here;
  }
  OSPREY_INLINE Pixel resized(int64_t image, const Between& row, const Between& column) const {
    const In* const picture = images + image * source_height * source_width * 3;
    const auto at = [&](int64_t i, int64_t j) {
      const In* const from = picture + (i * source_width + j) * 3;
      return Pixel{load(from), load(from + 1), load(from + 2)};
    };
    const Pixel upper_left = at(row.lower, column.lower), lower_left = at(row.upper, column.lower),
                upper_right = at(row.lower, column.upper), lower_right = at(row.upper, column.upper);
    return between(between(upper_left, lower_left, row.weight), between(upper_right, lower_right, row.weight),
                   column.weight);
  }
  static OSPREY_INLINE Pixel between(const Pixel& a, const Pixel& b, float weight) {
    Pixel result;
    for (int c = 0; c < 3; ++c) result.of[c] = a.of[c] + (b.of[c] - a.of[c]) * weight;
    return result;
  }
};

}  // namespace osprey::kernels::device
