#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

#include "kernels/cpu/sides.h"

/// What the windows of a convolution of all channels see, as rows: a convolution then is a product of matrices.
namespace osprey::kernels::cpu {

class WindowRows {
 public:
  /// map  [B, C, H, W] on a CPU, channels_last
  WindowRows(const at::Tensor& map, const Sides& sides);

  int64_t places() const { return places_; }  ///< of the result: B H' W'
  int64_t seen() const { return seen_; }      ///< numbers of the map in a row: kernel height x kernel width x C
  /// Of a row: what is seen, and for windows of more than a place zeros until they fill panels.
  int64_t length() const { return length_; }

  /// Brings what windows see, but for padding, to where rows have it: `pieces` of `pixels` pixels, the first of them
  /// from element `from` of the map on, `from_step` and `to_step` numbers apart.
  template <class Number>
  using Copy = c10::function_ref<void(int64_t from, int64_t from_step, int64_t pieces, int64_t pixels, Number* to,
                                      int64_t to_step)>;
  /// The rows of some places, of float32 or bfloat16; what windows see of padding is zero.
  /// rows  [end - begin, length()]
  template <class Number>
  void gather(int64_t begin, int64_t end, const Copy<Number>& copy, Number* rows) const;

  /// What gradients of all rows are for one line of a picture of the map.
  /// rows  [places(), length()]      result  [W, C]
  void sum_line(const float* rows, int64_t picture, int64_t line, float* result) const;

 private:
  Side lines_, pixels_;
  int64_t depth_, places_, seen_, length_;
  int64_t line_size_, picture_size_;  ///< of the map
};

}  // namespace osprey::kernels::cpu
