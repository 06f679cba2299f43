#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/product_arithmetic.h"

/// The channels of each place of a map times a matrix, some places at a time, wherever they come from.
namespace osprey::kernels::cpu {

class PlaceProducts {
 public:
  /// weights     [O, I] or [O, I, 1, 1] float32 on a CPU
  /// biases      [O], or undefined; not with `transposed`
  /// transposed  false: what a place has I of becomes O; true: the other way round
  PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed, Arithmetic arithmetic);

  int64_t depth() const { return depth_; }      ///< channels of a place
  int64_t columns() const { return columns_; }  ///< of its product

  /// Products of `count` places, at least kLeastPlaces (place_tasks.h).
  /// places   [count, depth], of any type that maps have; unless floats are multiplied of float32 or bfloat16
  /// ahead    fetched into the cache meanwhile
  /// products [count, columns], of any type that maps have
  template <class T, class Product>
  void multiply(const T* places, int64_t count, const Ahead& ahead, Product* products) const;

 private:
  int64_t depth_, columns_;
  Arithmetic arithmetic_;
  at::Tensor panels_, start_;
};

}  // namespace osprey::kernels::cpu
