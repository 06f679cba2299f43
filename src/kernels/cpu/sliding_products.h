#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <vector>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/sides.h"

/// Convolutions whose windows move by one over bfloat16 maps and keep their size, by tiles of such numbers
/// (loops/amx_products.h). What a window sees is a row of as many pieces as it has taps, which lie where the map has
/// them: nothing is brought together but lines with the zeros beside them.
namespace osprey::kernels::cpu {

/// An odd number of taps on each side.
struct TapCounts {
  int64_t high, wide;
  int64_t count() const { return high * wide; }
};

/// Whether such windows move by one and keep the size of the map, and have more taps than one.
bool slide(const Sides& sides);

/// The pictures of a map below each other, each with as many lines of zeros as windows see, and lines with the zeros
/// beside them one after the other: places of the result are at even distances then. Those that stand for what lies
/// between pictures are made as well, and left out.
class TallMap {
 public:
  /// map  [B, C, H, W]
  TallMap(const at::Tensor& map, const TapCounts& taps);

  int64_t width() const { return width_; }  ///< places of a line, zeros included
  int64_t pixels() const { return pixels_; }
  /// The number among the lines of all pictures of what is seen as line `line`, or made as such; -1: no line of theirs.
  int64_t seen(int64_t line) const { return own(line, line % period_ - above_); }
  int64_t made(int64_t line) const { return own(line, line % period_); }

  /// Lines of the result as strips, of at least some lines where there are as many.
  /// size  numbers that a place has, which decides how many lines fit into the core's own cache
  struct Strip {
    int64_t begin, end;
    int64_t lines() const { return end - begin; }
  };
  std::vector<Strip> strips(int64_t size) const;

  /// Writes what the windows of a strip see, (strip.lines() + taps.high - 1) * width() places of `place_size` numbers.
  /// read  (number of a line, to): writes pixels() places of `depth` numbers
  void fill(const Strip& strip, int64_t depth, int64_t place_size,
            c10::function_ref<void(int64_t line, Bfloat16* to)> read, Bfloat16* to) const;
  int64_t seen_places(const Strip& strip) const { return (strip.lines() + 2 * above_) * width_; }
  /// Where among the places that a strip sees its own first one is.
  int64_t own_place() const { return above_ * width_ + beside_; }

 private:
  int64_t own(int64_t line, int64_t of_picture) const {
    return of_picture >= 0 && of_picture < height_ ? line / period_ * height_ + of_picture : -1;
  }

  int64_t height_, pixels_, above_, beside_;  ///< of a picture; zeros around it
  int64_t period_, width_, lines_;
};

/// The products of what windows see with weights.
class SlidingProducts {
 public:
  /// weights     [O, I, high, wide] float32 on a CPU
  /// biases      [O], or undefined; not with `transposed`
  /// transposed  of gradients: what has O channels becomes I, and the window is turned around
  SlidingProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed);

  int64_t depth() const { return depth_; }  ///< channels of what is seen
  int64_t columns() const { return columns_; }
  int64_t place_size() const { return 2 * steps_; }  ///< numbers that a place of a strip has; depth(), or zeros more

  /// Of some lines that follow each other in a map.
  /// seen   what TallMap::fill makes, from the line on that the windows of the first of them see first
  /// made   [lines, pixels of a line, columns()], of float or Bfloat16
  template <class Product>
  void multiply(const TallMap& map, const Bfloat16* seen, int64_t lines, Product* made) const;

 private:
  TapCounts taps_;
  int64_t depth_, columns_, steps_;
  at::Tensor panels_, start_;
};

/// The gradient of the weights: for each tap the sum over places of what is wanted of them times what the tap sees.
class SlidingSums {
 public:
  SlidingSums(int64_t O, int64_t I, const TapCounts& taps);

  /// What a strip is made of.
  struct Places {
    int64_t lines, width;
  };
  /// Where what is multiplied of a strip goes; see `pack`.
  struct Packed {
    Bfloat16* wanted;
    float* seen;
  };
  /// Adds some strips: calls `fill` for each, by several threads, which has to call `pack`.
  void add(const std::vector<Places>& strips, c10::function_ref<void(int64_t strip, const Packed& to)> fill);
  /// wanted  the gradient of places of the result, zeros between pictures included: [lines * width, wanted_size]
  /// seen    what the windows of those see: [(lines + high - 1) * width, seen_size]
  void pack(const Places& places, const Bfloat16* wanted, int64_t wanted_size, const Bfloat16* seen, int64_t seen_size,
            const Packed& to) const;

  /// [O, high, wide, I] float32, once.
  at::Tensor total() const;

 private:
  int64_t steps(const Places& places) const;  ///< that a tap multiplies, of kAmxPlaces
  int64_t wanted_step(const Places& places) const;
  int64_t seen_step(const Places& places) const;
  int64_t wanted_numbers(const Places& places) const;
  int64_t seen_floats(const Places& places) const;
  void multiply(const std::vector<Places>& strips, const std::vector<Packed>& packed);

  int64_t O_, I_;
  TapCounts taps_;
  int64_t row_panels_, column_panels_;
  bool begun_ = false;
  at::Tensor sums_;  ///< [column panels, row panels, taps, kTileSide, kPanelColumns]
};

}  // namespace osprey::kernels::cpu
