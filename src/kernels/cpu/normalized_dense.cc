#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/line_tasks.h"
#include "kernels/cpu/loops/floats.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/place_sums.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/window_rows.h"
#include "kernels/maps.h"

namespace osprey::kernels::cpu {
namespace {

/// Some numbers, mostly fewer than calling a function for them is worth.
template <class T>
void copy_few(const T* from, int64_t count, T* to) {
  constexpr int64_t kWord = 8 / sizeof(T);
  if (count < kWord) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kWord < count; i += kWord) std::memcpy(to + i, from + i, 8);
  std::memcpy(to + count - kWord, from + count - kWord, 8);
}

/// What a convolution of all channels multiplies with its weights at each place of the result: what its window sees,
/// put through the batch norm, as floats, or for products of pairs as numbers of the map.
template <class T>
class Factors {
 public:
  Factors(const at::Tensor& x, const std::optional<Affine>& affine, const Sides& sides)
      : map_(device::data<const T>(x)),
        depth_(x.size(1)),
        channels_(affine ? &affine->channels : nullptr),
        windows_(x, sides),
        one_by_one_(sides.are_those_of_1x1()) {}

  int64_t places() const { return windows_.places(); }
  int64_t seen() const { return windows_.seen(); }
  int64_t length() const { return windows_.length(); }
  bool one_by_one() const { return one_by_one_; }

  /// All rows where they are what the map has, in such numbers; otherwise null.
  template <class Number>
  const Number* in_place() const {
    if constexpr (std::is_same_v<T, Number>) return one_by_one_ && channels_ == nullptr ? map_ : nullptr;
    return nullptr;
  }

  /// The rows of some places, [end - begin, length()]: in `space`, unless in place.
  /// Number  float, or what the map has
  template <class Number>
  const Number* rows(int64_t begin, int64_t end, Number* space) const {
    if (const Number* const all = in_place<Number>()) return all + begin * depth_;
    if (one_by_one_) {
      bring(begin * depth_, /*from_step=*/0, /*pieces=*/1, end - begin, space, /*to_step=*/0);
    } else {
      windows_.gather<Number>(
          begin, end,
          [&](int64_t from, int64_t from_step, int64_t pieces, int64_t pixels, Number* to, int64_t to_step) {
            bring(from, from_step, pieces, pixels, to, to_step);
          },
          space);
    }
    return space;
  }

  /// The same packed as columns of a sum over places.
  template <class Number>
  void pack(int64_t begin, int64_t end, const PlacePiece& piece) const {
    const int64_t count = end - begin;
    if (one_by_one_ && channels_ != nullptr)
      return piece.make_columns([&](float* to, int64_t panel_size) {
        const T* const from = map_ + begin * depth_;
        if constexpr (std::is_same_v<Number, float>) {
          normalize_panels(from, count, depth_, *channels_, to, panel_size);
        } else {
          normalize_pairs(from, count, depth_, *channels_, to, panel_size);
        }
      });
    const auto space = scratch<Number>(in_place<Number>() != nullptr ? 0 : count * length());
    piece.pack_columns(rows(begin, end, space.get()));
  }

  /// What `rows` reads for some places after these.
  Ahead after(int64_t end, int64_t count) const {
    return one_by_one_ ? Ahead::of(map_ + end * depth_, count * depth_) : Ahead{};
  }

  /// What gradients of all rows are for one line of a picture of the map.
  void sum_line(const float* rows, int64_t picture, int64_t line, float* result) const {
    windows_.sum_line(rows, picture, line, result);
  }

 private:
  /// Pieces of some pixels, the first from element `from` of the map on.
  template <class Number>
  void bring(int64_t from, int64_t from_step, int64_t pieces, int64_t pixels, Number* to, int64_t to_step) const {
    const T* const first = map_ + from;
    if (channels_ != nullptr) {
      for (int64_t i = 0; i < pieces; ++i)
        normalize_rows(first + i * from_step, pixels, depth_, depth_, *channels_, to + i * to_step);
    } else if constexpr (std::is_same_v<Number, float>) {
      copy_floats(first, from_step, pieces, pixels * depth_, to, to_step);
    } else {
      for (int64_t i = 0; i < pieces; ++i) copy_few(first + i * from_step, pixels * depth_, to + i * to_step);
    }
  }

  const T* map_;
  int64_t depth_;
  const ChannelAffine* channels_;  ///< null: nothing to be normalised
  WindowRows windows_;
  bool one_by_one_;
};

/// [O, C, height, width] -> [O, length], as the rows of factors are
at::Tensor to_matrix(const at::Tensor& weights, int64_t length) {
  const at::Tensor matrix = weights.permute({0, 2, 3, 1}).flatten(1);
  return matrix.size(1) == length ? matrix : at::constant_pad_nd(matrix, {0, length - matrix.size(1)});
}

/// The gradients of the weights, and `moments`, of some pictures; that of x is written into `of_x`, unless undefined.
/// T, Number  what maps consist of, and what is multiplied
/// sum        null: x has been read by itself
template <class T, class Number>
ConvolvedGradients dense_backward_of(const ThroughStatistics& gradient, const at::Tensor& x,
                                     const std::optional<Affine>& affine, const at::Tensor& weights, const Sides& sides,
                                     const at::Tensor& of_x, const ReadSum* sum = nullptr) {
  const Factors<T> factors = sum == nullptr ? Factors<T>(x, affine, sides) : Factors<T>(sum->sum, std::nullopt, sides);
  const int64_t columns = weights.size(0), length = factors.length(), depth = x.size(1), places = factors.places();
  const Arithmetic arithmetic = arithmetic_for(x.scalar_type());
  const PlaceSums weight_sums(columns, length, places, arithmetic);
  ConvolvedGradients result;
  std::optional<PlaceProducts> products;
  if (of_x.defined()) products.emplace(to_matrix(weights, length), at::Tensor(), /*transposed=*/true, arithmetic);
  const bool by_windows = products && !factors.one_by_one();
  const at::Tensor row_gradients = at::empty({by_windows ? places : 0, length}, at::kFloat);
  auto* const of_rows = row_gradients.mutable_data_ptr<float>();
  const auto *const wanted = device::data<const T>(gradient.gradient), *const y = device::data<const T>(gradient.y);
  TaskSums sums(factors.one_by_one() ? weight_sums.tasks().count() : x.size(0) * line_tasks(sides.lines.from), depth);
  // The total gradient of some places, then what it makes of the gradients of their rows.
  const auto back = [&](int64_t task, int64_t begin, int64_t count, Number* totals) {
    make_total<T>(gradient, begin * columns, count, totals);
    if (!products) return;
    const Ahead ahead = Ahead::of(wanted + (begin + count) * columns, count * columns);
    if (by_windows) return products->multiply(totals, count, ahead, of_rows + begin * length);
    const RowGradients<T> gradients(x, affine, of_x, count, sum);
    products->multiply(totals, count, ahead, gradients.begin(begin * depth));
    gradients.finish(begin * depth, count, sums.begin(task));
  };
  const at::Tensor of_weights = weight_sums.of([&](int64_t task, int64_t begin, int64_t end, const PlacePiece& piece) {
    const int64_t count = end - begin;
    const auto totals = scratch<Number>(count * columns);
    back(task, begin, count, totals.get());
    piece.pack_rows(totals.get());
    factors.template pack<Number>(begin, end, piece);
    return PlaceSums::Next{Ahead::of(y + end * columns, count * columns), factors.after(end, count)};
  });
  result.weights = of_weights.view({columns, length})
                       .narrow(1, 0, factors.seen())
                       .reshape({columns, sides.lines.kernel, sides.pixels.kernel, depth})
                       .permute({0, 3, 1, 2});
  if (by_windows)
    for_lines(x.size(0), sides.lines.from, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
      const Picture picture(x, number);
      const RowGradients<T> gradients(x, affine, of_x, sides.pixels.from);
      const TaskSums::Sums own = sums.begin(task);
      for (int64_t line = begin; line < end; ++line) {
        factors.sum_line(of_rows, number, line, gradients.begin(picture.at(line)));
        gradients.finish(picture.at(line), sides.pixels.from, own);
      }
    });
  if (affine) result.moments = sums.total();
  return result;
}

/// The rows that a convolution reads where these are made just before: of what, and how.
struct MadeRows {
  at::Tensor from;  ///< fetched ahead; as large as they are
  c10::function_ref<void(int64_t begin, int64_t end)> make;
};

/// T, Number  what maps consist of, and what is multiplied
template <class T, class Number>
Convolved dense_of(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                   const Sides& sides, const MadeRows* made = nullptr) {
  const Factors<T> factors(x, affine, sides);
  const int64_t columns = weights.size(0), length = factors.length();
  const Arithmetic arithmetic = arithmetic_for(x.scalar_type());
  const PlaceProducts products(to_matrix(weights, length), {}, /*transposed=*/false, arithmetic);
  const PlaceTasks tasks(arithmetic, factors.places(), std::max(factors.seen(), columns));
  const at::Tensor y = empty_map({x.size(0), columns, sides.lines.to, sides.pixels.to}, x);
  T* const out = device::data<T>(y);
  TaskSums sums(tasks.count(), columns);
  tasks.for_each([&](int64_t task, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const auto space = scratch<Number>(count * length);
    if (made != nullptr) made->make(begin, end);
    const Ahead ahead = made == nullptr
                            ? factors.after(end, count)
                            : Ahead::of(device::data<const T>(made->from) + end * x.size(1), count * x.size(1));
    T* const result = out + begin * columns;
    products.multiply(factors.rows(begin, end, space.get()), count, ahead, result);
    TaskMoments<T> moments(result, columns, /*step=*/columns, sums.begin(task));
    moments.add(result, count);
    moments.finish();
  });
  return {y, sums.total()};
}

}  // namespace

Convolved normalized_dense(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                           const Sides& sides) {
  Convolved result;
  with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
    result = dense_of<std::remove_pointer_t<decltype(type)>, std::remove_pointer_t<decltype(factor)>>(x, affine,
                                                                                                      weights, sides);
  });
  return result;
}

ConvolvedGradients normalized_dense_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                             const std::optional<Affine>& affine, const at::Tensor& weights,
                                             const Sides& sides, bool of_x) {
  // Rows of windows, and their gradients, are larger than the map: not those of all pictures at a time.
  constexpr int64_t kBytes = 64 << 20;
  const int64_t B = x.size(0), numbers = sides.lines.to * sides.pixels.to * weights[0].numel(),
                fit = std::max<int64_t>(kBytes / (numbers * static_cast<int64_t>(sizeof(float))), 1),
                parts = sides.are_those_of_1x1() ? 1 : (B + fit - 1) / fit;
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * B / parts, count = (part + 1) * B / parts - first;
    const auto some = [&](const at::Tensor& maps) { return count == B ? maps : maps.narrow(0, first, count); };
    const at::Tensor of_y = some(gradient.gradient), y = some(gradient.y);
    const ThroughStatistics through{of_y, y, gradient.mean, gradient.scale, gradient.slope, gradient.offset};
    ConvolvedGradients found;
    with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
      found = dense_backward_of<std::remove_pointer_t<decltype(type)>, std::remove_pointer_t<decltype(factor)>>(
          through, some(x), affine, weights, sides, of_x ? some(result.x) : at::Tensor());
    });
    result.weights = part == 0 ? found.weights : result.weights.add_(found.weights);
    if (affine) result.moments = part == 0 ? found.moments : result.moments.add_(found.moments);
  }
  return result;
}

Convolved summed_dense(const at::Tensor& x, const Affine& affine, const at::Tensor& addend, const at::Tensor& weights,
                       const Sides& sides, const at::Tensor& sum) {
  const int64_t depth = x.size(1);
  Convolved result;
  with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto *const in = device::data<const T>(x), *const added = device::data<const T>(addend);
    auto* const out = device::data<T>(sum);
    const auto add = [&](int64_t begin, int64_t end) {
      const int64_t at = begin * depth;
      add_normalized_rows(in + at, added + at, end - begin, depth, affine.channels, out + at);
    };
    const MadeRows made{x, add};
    result = dense_of<T, std::remove_pointer_t<decltype(factor)>>(sum, std::nullopt, weights, sides, &made);
  });
  return result;
}

ConvolvedGradients summed_dense_backward(const ThroughStatistics& gradient, const ReadSum& sum, const at::Tensor& x,
                                         const Affine& affine, const at::Tensor& weights, const Sides& sides) {
  ConvolvedGradients result;
  const at::Tensor of_x = empty_map(x.sizes(), x);
  with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
    result = dense_backward_of<std::remove_pointer_t<decltype(type)>, std::remove_pointer_t<decltype(factor)>>(
        gradient, x, affine, weights, sides, of_x, &sum);
  });
  result.x = of_x;
  return result;
}

}  // namespace osprey::kernels::cpu
