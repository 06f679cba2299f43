#pragma once
#include "kernels/device/map_rows.h"

/// Pictures into what a network takes. A block has neighbouring places of one picture.
namespace osprey::kernels::device {

/// What pictures become, channel by channel: value * scale + offset, or the padding.
struct PixelScale {
  float scale[3], offset[3], pad[3];
};

/// Height and width of what is no padding.
struct ContentShapes {
  const int64_t* shapes;  ///< [B, stride]; null: all of a result is content
  int64_t stride;
  int height, width;  ///< of the result

  OSPREY_INLINE int64_t content_height(int64_t picture) const {
    return shapes == nullptr ? height : shapes[picture * stride];
  }
  OSPREY_INLINE int64_t content_width(int64_t picture) const {
    return shapes == nullptr ? width : shapes[picture * stride + 1];
  }
};

/// How many places of a side are content.
OSPREY_INLINE int places_of(int64_t content, int all) {
  return content < 0 ? 0 : content < all ? static_cast<int>(content) : all;
}

/// Pictures that are as large as the result. A thread takes `kNumbers` neighbouring numbers at once, whatever channels
/// those are of; lines have at least as many, and pictures come out even.
/// Bytes moved: the pictures and the result once each.
template <class In, class Out, int kNumbers>
struct ScalePictures {
  static constexpr int kThreads = 256, kAhead = 2, kOfBlock = kThreads * kAhead;
  using Shared = Nothing;

  const In* images;  ///< [B, height, width, 3]
  ContentShapes content;
  PixelScale channels;
  Out* result;  ///< [B, height, width, 3]
  Divisor line_numbers = 3 * content.width;
  int pieces = content.height * content.width * 3 / kNumbers;  ///< of a picture
  Divisor blocks_of_picture = blocks_for(pieces, kOfBlock);

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const Split of(static_cast<int>(block.index), blocks_of_picture);
    const int64_t picture = of.quotient, begin = picture * pieces * kNumbers;
    const In* const from = images + begin;
    Out* const to = result + begin;
    const int height = places_of(content.content_height(picture), content.height),
              end = places_of(content.content_width(picture), content.width) * 3;
    block.run([&](int thread) {
      const int first = of.rest * kOfBlock + thread;
      Vector<In, kNumbers> numbers[kAhead];
      OSPREY_UNROLL
      for (int i = 0; i < kAhead; ++i)
        if (const int piece = first + i * kThreads; piece < pieces)
          numbers[i] = read<kNumbers>(from + piece * kNumbers);
      OSPREY_UNROLL
      for (int i = 0; i < kAhead; ++i)
        if (const int piece = first + i * kThreads; piece < pieces) {
          const Split line(piece * kNumbers, line_numbers);
          scale(numbers[i], line.rest, line.quotient < height ? end : 0, line.quotient + 1 < height ? end : 0,
                to + piece * kNumbers);
        }
    });
  }

 private:
  /// at         where they lie in their line
  /// end, next  of what is content there, and in the line after it
  OSPREY_INLINE void scale(const Vector<In, kNumbers>& numbers, int at, int end, int next, Out* to) const {
    const int channel = at % 3, left = end - at, of_line = static_cast<int>(line_numbers) - at;
    const auto from_channel = [&](const float(&of)[3], int k) {
      return channel == 0 ? of[k % 3] : channel == 1 ? of[(k + 1) % 3] : of[(k + 2) % 3];
    };
    float scales[3], offsets[3], pads[3], values[kNumbers];
    OSPREY_UNROLL
    for (int k = 0; k < 3; ++k) {
      scales[k] = from_channel(channels.scale, k);
      offsets[k] = from_channel(channels.offset, k);
      pads[k] = from_channel(channels.pad, k);
    }
    OSPREY_UNROLL
    for (int k = 0; k < kNumbers; ++k) {
      const bool there = k < of_line ? k < left : k - of_line < next;
      values[k] = there ? numbers[k] * scales[k % 3] + offsets[k % 3] : pads[k % 3];
    }
    write(to, values);
  }
};

/// A side of a picture that is resized.
struct ResizedSide {
  int from, places;  ///< of the source, and of the result that are content
  float step;        ///< of the source, for a place of the result
  OSPREY_INLINE ResizedSide(int64_t source, int64_t content, int all)
      : from(static_cast<int>(source)),
        places(places_of(content, all)),
        step(static_cast<float>(source) / static_cast<float>(content)) {}
};

/// Where a place of the result lies between two of the source.
struct Between {
  int lower, upper;
  float weight;  ///< of the upper

  OSPREY_INLINE Between(int place, const ResizedSide& side) {
    const float at = static_cast<float>(place) * side.step;
    lower = static_cast<int>(at);
    weight = at - static_cast<float>(lower);
    lower = lower < side.from ? lower : side.from - 1;
    upper = lower + 1 < side.from ? lower + 1 : lower;
  }
};

/// Pictures that are resized. A thread makes a few pixels; what a block has made is written by words.
template <class In, class Out>
struct ResizePictures {
  static constexpr int kThreads = 256, kOfThread = 4, kOfBlock = kThreads * kOfThread, kWord = 16 / sizeof(Out);
  struct Shared {
    Vector<Out, kWord> words[kOfBlock * 3 / kWord];
  };

  const In* images;              ///< [B, source_height, source_width, 3]
  const int64_t* source_shapes;  ///< [B, 2]: height and width of the pictures
  int source_height, source_width;
  ContentShapes content;
  PixelScale channels;
  Out* result;    ///< [B, height, width, 3]
  bool by_words;  ///< whether results of all blocks begin where words may
  Divisor width = content.width;
  int pixels = content.height * content.width;  ///< of a result
  Divisor blocks_of_picture = blocks_for(pixels, kOfBlock);

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const Split of(static_cast<int>(block.index), blocks_of_picture);
    const int first = of.rest * kOfBlock, rest = pixels - first, count = rest < kOfBlock ? rest : kOfBlock;
    Out* const made = reinterpret_cast<Out*>(shared.words);
    const auto sides = sides_of(of.quotient);
    block.run([&](int thread) {
      OSPREY_UNROLL
      for (int i = 0; i < kOfThread; ++i)
        if (const int pixel = i * kThreads + thread; pixel < count) make(sides, first + pixel, made + pixel * 3);
    });
    Out* const to = result + (static_cast<int64_t>(of.quotient) * pixels + first) * 3;
    block.run([&](int thread) {
      if (by_words && count == kOfBlock) {
        for (int word = thread; word < kOfBlock * 3 / kWord; word += kThreads)
          write(to + word * kWord, shared.words[word]);
      } else {
        for (int i = thread; i < count * 3; i += kThreads) to[i] = made[i];
      }
    });
  }

  struct Sides {
    const In* picture;
    ResizedSide rows, columns;
  };
  OSPREY_INLINE Sides sides_of(int64_t picture) const {
    return {images + picture * source_height * source_width * 3,
            {source_shapes[picture * 2], content.content_height(picture), content.height},
            {source_shapes[picture * 2 + 1], content.content_width(picture), content.width}};
  }
  /// pixel  of the result of that picture
  OSPREY_INLINE void make(const Sides& sides, int pixel, Out* to) const {
    const Split line(pixel, width);
    if (line.quotient >= sides.rows.places || line.rest >= sides.columns.places) {
      OSPREY_UNROLL
      for (int c = 0; c < 3; ++c) store(to + c, channels.pad[c]);
      return;
    }
    const Between row(line.quotient, sides.rows), column(line.rest, sides.columns);
    const In *const upper = sides.picture + row.lower * source_width * 3, *const lower = sides.picture +
                                                                                         row.upper * source_width * 3;
    const int left = column.lower * 3, right = column.upper * 3;
    OSPREY_UNROLL
    for (int c = 0; c < 3; ++c) {
      const float value = between(between(load(upper + left + c), load(lower + left + c), row.weight),
                                  between(load(upper + right + c), load(lower + right + c), row.weight), column.weight);
      store(to + c, value * channels.scale[c] + channels.offset[c]);
    }
  }

 private:
  static OSPREY_INLINE float between(float a, float b, float weight) { return a + (b - a) * weight; }
};

}  // namespace osprey::kernels::device
