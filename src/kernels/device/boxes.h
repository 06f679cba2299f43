#pragma once
#include "kernels/arithmetic/box_code.h"
#include "kernels/arithmetic/box_loss.h"
#include "kernels/device/map_rows.h"

/// Kernels over the anchors of images. Boxes, and codes of boxes, begin at multiples of 16 bytes: threads read and
/// write one at once.
namespace osprey::kernels::device {

/// Work on each anchor of each image. `Rows` holds the arguments; it has
///
///     Anchor anchor(int64_t a) const;                          // what all images have in common
///     Row read(int64_t i, int64_t image) const;                // of what an image has; i = image * A + a
///     void write(int64_t i, const Anchor& anchor, const Row& row) const;
///
/// A thread has an anchor, which it reads once, and a few images, of which it reads all before it writes for the first.
template <class Rows>
struct EachAnchor {
  static constexpr int kThreads = 256, kImages = 2;
  using Shared = Nothing;
  Rows rows;
  int64_t images, A;
  Divisor tiles = blocks_for(A, kThreads);  ///< blocks of the same images

  int64_t blocks() const { return tiles * blocks_for(images, kImages); }

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const Split of(block.index, tiles);
    const int64_t first = of.quotient * kImages;
    block.run([&](int thread) {
      const int64_t a = of.rest * kThreads + thread;
      if (a >= A) return;
      const auto anchor = rows.anchor(a);
      if (first + kImages <= images) {
        typename Rows::Row read[kImages];
        OSPREY_UNROLL
        for (int k = 0; k < kImages; ++k) read[k] = rows.read((first + k) * A + a, first + k);
        OSPREY_UNROLL
        for (int k = 0; k < kImages; ++k) rows.write((first + k) * A + a, anchor, read[k]);
      } else {
        for (int64_t image = first; image < images; ++image)
          rows.write(image * A + a, anchor, rows.read(image * A + a, image));
      }
    });
  }
};

/// Two kernels in one: `first_blocks` blocks of one, then those of the other.
template <class First, class Second>
struct TwoKernels {
  static constexpr int kThreads = First::kThreads;
  static_assert(Second::kThreads == kThreads);
  using Shared = Nothing;
  First first;
  int64_t first_blocks;
  Second second;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    if (block.index < first_blocks) return first(block, shared);
    Block later = block;
    later.index -= first_blocks;
    second(later, shared);
  }
};

/// A box or a code, as a thread keeps it at hand.
struct FourNumbers {
  float values[4];
};
OSPREY_INLINE FourNumbers read_four(const float* all, int64_t i) {
  const Vector<float, 4> at_once = read<4>(all + i * 4);
  return {{at_once[0], at_once[1], at_once[2], at_once[3]}};
}

/// The row of classes and the weight of ignored anchors, of background and of each box of each image. An element is one
/// of the numbers: of each row the weight, then the classes.
struct ClassRows {
  const float *labels, *box_weights;  ///< [B, M, C], [B, M]
  int64_t M, C;
  float background, background_weight;  ///< what stands in the first column of an anchor without a box, and its weight
  float *rows, *weights;                ///< [B, M + 2, C], [B, M + 2]
  Divisor columns = C + 1, rows_of_image = M + kFirstBox;

  int64_t count(int64_t images) const { return images * rows_of_image * columns; }

  OSPREY_INLINE void operator()(int64_t i) const {
    const Split at(i, columns), of(at.quotient, rows_of_image);
    const int64_t box = of.quotient * M + of.rest - kFirstBox, c = at.rest - 1;
    const bool of_box = of.rest >= kFirstBox;
    if (c < 0) {
      weights[at.quotient] = of_box ? box_weights[box] : of.rest == 0 ? 0 : background_weight;
    } else {
      rows[at.quotient * C + c] = of_box ? labels[box * C + c] : c == 0 ? background : 0;
    }
  }

  /// An anchor's row is its match plus this.
  static constexpr int64_t kFirstBox = 2;
};

/// The code of the box of each anchor of each image, zeros where it has none.
struct MatchedCodes {
  using Anchor = FourNumbers;
  struct Row {
    FourNumbers box;
    bool matched;
  };
  const float* boxes;    ///< [B, M, 4]
  const int64_t* match;  ///< [B, A]
  const float* anchors;  ///< [A, 4]
  int64_t M;
  CodeScales scales;

  OSPREY_INLINE Anchor anchor(int64_t a) const { return read_four(anchors, a); }
  OSPREY_INLINE Row read(int64_t i, int64_t image) const { return row_of(match[i], image); }
  OSPREY_INLINE Row row_of(int64_t box, int64_t image) const {
    return {box >= 0 ? read_four(boxes, image * M + box) : FourNumbers{}, box >= 0};
  }
  OSPREY_INLINE void encode(const Anchor& anchor, const Row& row, float* code) const {
    if (row.matched) {
      encode_box(row.box.values, anchor.values, scales, code);
    } else {
      for (int k = 0; k < 4; ++k) code[k] = 0;
    }
  }
};

/// Of each anchor of each image: its row, the code of its box and the weight of that.
struct AnchorTargets {
  using Anchor = MatchedCodes::Anchor;
  struct Row {
    MatchedCodes::Row matched;
    int64_t match;
    float weight;
  };
  MatchedCodes matched;
  const float* box_weights;  ///< [B, M]
  int64_t* rows;             ///< [B, A]
  float* codes;              ///< [B, A, 4], or null
  float* weights;            ///< [B, A]

  OSPREY_INLINE Anchor anchor(int64_t a) const { return codes != nullptr ? matched.anchor(a) : Anchor{}; }
  OSPREY_INLINE Row read(int64_t i, int64_t image) const {
    const int64_t match = matched.match[i];
    return {codes != nullptr ? matched.row_of(match, image) : MatchedCodes::Row{}, match,
            match >= 0 ? box_weights[image * matched.M + match] : 0};
  }
  OSPREY_INLINE void write(int64_t i, const Anchor& anchor, const Row& row) const {
    rows[i] = row.match + ClassRows::kFirstBox;
    weights[i] = row.weight;
    if (codes == nullptr) return;
    float code[4];
    matched.encode(anchor, row.matched, code);
    device::write(codes + i * 4, code);
  }
};

struct DecodeBox {
  using Anchor = FourNumbers;
  using Row = FourNumbers;
  const float *codes, *anchors;  ///< [N, A, 4], [A, 4]
  CodeScales scales;
  float* boxes;  ///< [N, A, 4]

  OSPREY_INLINE Anchor anchor(int64_t a) const { return read_four(anchors, a); }
  OSPREY_INLINE Row read(int64_t i, int64_t) const { return read_four(codes, i); }
  OSPREY_INLINE void write(int64_t i, const Anchor& anchor, const Row& code) const {
    float box[4];
    decode_box(code.values, anchor.values, scales, box);
    device::write(boxes + i * 4, box);
  }
};

struct DecodeBoxBackward {
  using Anchor = FourNumbers;
  struct Row {
    FourNumbers by_box, code;
  };
  const float *by_box, *codes, *anchors;  ///< [N, A, 4], [N, A, 4], [A, 4]
  CodeScales scales;
  float* by_code;  ///< [N, A, 4]

  OSPREY_INLINE Anchor anchor(int64_t a) const { return read_four(anchors, a); }
  OSPREY_INLINE Row read(int64_t i, int64_t) const { return {read_four(by_box, i), read_four(codes, i)}; }
  OSPREY_INLINE void write(int64_t i, const Anchor& anchor, const Row& row) const {
    float result[4];
    decode_box_backward(row.by_box.values, row.code.values, anchor.values, scales, result);
    device::write(by_code + i * 4, result);
  }
};

/// Codes, or boxes, that are there for each anchor of each image.
struct WrittenCodes {
  using Anchor = Nothing;
  using Row = FourNumbers;
  const float* values;  ///< [B, A, 4]

  OSPREY_INLINE Anchor anchor(int64_t) const { return {}; }
  OSPREY_INLINE Row read(int64_t i, int64_t) const { return read_four(values, i); }
  OSPREY_INLINE void encode(const Anchor&, const Row& row, float* code) const {
    for (int k = 0; k < 4; ++k) code[k] = row.values[k];
  }
};

/// What numbers that are not ones stand for: the prediction.
OSPREY_INLINE void replace_none(const float* prediction, int size, float* target) {
  for (int k = 0; k < size; ++k) target[k] = target[k] == target[k] ? target[k] : prediction[k];
}

/// Of each anchor of each image: the loss of its box, times its weight. A target that is not a number stands for the
/// prediction.
template <class Form, class Codes>
struct BoxLoss {
  using Anchor = typename Codes::Anchor;
  struct Row {
    FourNumbers prediction;
    typename Codes::Row target;
    float weight;
  };
  Form form;
  Codes targets;
  const float* predictions;  ///< [B, A, 4]
  const float* weights;      ///< [B, A]
  float* losses;
  float* slopes;  ///< like the predictions, or null

  OSPREY_INLINE Anchor anchor(int64_t a) const { return targets.anchor(a); }
  OSPREY_INLINE Row read(int64_t i, int64_t image) const {
    return {read_four(predictions, i), targets.read(i, image), weights[i]};
  }
  OSPREY_INLINE void write(int64_t i, const Anchor& anchor, const Row& row) const {
    float target[4], slope[4];
    targets.encode(anchor, row.target, target);
    replace_none(row.prediction.values, 4, target);
    losses[i] = row.weight * form(row.prediction.values, target, 4, slope);
    if (slopes == nullptr) return;
    for (int k = 0; k < 4; ++k) slope[k] *= row.weight;
    device::write(slopes + i * 4, slope);
  }
};

constexpr int kMostCodes = 32;  ///< of an anchor

/// The same of codes that are not of four numbers.
template <class Form>
struct CodeLoss {
  Form form;
  const float *targets, *predictions;  ///< [B * A, size]
  const float* weights;                ///< [B * A]
  int size;                            ///< at most kMostCodes
  float* losses;
  float* slopes;  ///< like the predictions, or null

  OSPREY_INLINE void operator()(int64_t i) const {
    const float* const own = predictions + i * size;
    float target[kMostCodes], slope[kMostCodes];
    for (int k = 0; k < size; ++k) target[k] = targets[i * size + k];
    replace_none(own, size, target);
    losses[i] = weights[i] * form(own, target, size, slope);
    if (slopes == nullptr) return;
    for (int k = 0; k < size; ++k) slopes[i * size + k] = weights[i] * slope[k];
  }
};

}  // namespace osprey::kernels::device
