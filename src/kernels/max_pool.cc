#include "osprey/kernels/max_pool.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "kernels/cpu/loops/pool_rows.h"
#include "kernels/device/max_pool.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

/// size  of the map
device::PoolWindow pool_window(int64_t depth, at::IntArrayRef size, int64_t kernel, int64_t stride,
                               at::IntArrayRef padding) {
  TORCH_CHECK(size.size() == 2 && kernel > 0 && kernel <= kMostPoolKernel && stride > 0 &&
                  stride <= std::numeric_limits<int32_t>::max() && padding.size() == 4,
              "expected the size of a map, a kernel of 1 to ", kMostPoolKernel, ", a stride and four paddings, got ",
              size, ", ", kernel, ", ", stride, " and ", padding);
  for (const int64_t side : padding)
    TORCH_CHECK(side >= 0 && side < kernel, "a window of ", kernel, " with a padding of ", side, " may see nothing");
  const auto places = [&](size_t side) {
    const int64_t length = size[side] + padding[2 * side] + padding[2 * side + 1] - kernel;
    TORCH_CHECK(size[side] > 0 && length >= 0, "a window of ", kernel, " does not fit into a map of ", size);
    return length / stride + 1;
  };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(size[0] <= kMost / size[1] && depth <= kMost, "expected maps of fewer than 2^31 places, got ", size);
  return {static_cast<int>(size[0]),   static_cast<int>(size[1]),    static_cast<int>(places(0)),
          static_cast<int>(places(1)), static_cast<int>(depth),      static_cast<int>(kernel),
          static_cast<int>(stride),    static_cast<int>(padding[0]), static_cast<int>(padding[2])};
}

/// Along a line, for loops of a CPU.
cpu::PoolLine pool_line(const device::PoolWindow& window) {
  return {window.depth, window.width, window.pixels, window.kernel, window.stride, window.left};
}

/// x, y  channels_last on a CPU
template <class T>
void pool_lines(const device::PoolWindow& window, const T* x, int64_t pictures, T* y, uint8_t* taps) {
  const cpu::PoolLine line = pool_line(window);
  parallel_for(pictures * window.lines, [&](int64_t number) {
    const int64_t top = number % window.lines * window.stride - window.above, first = std::max<int64_t>(top, 0),
                  end = std::min<int64_t>(top + window.kernel, window.height),
                  from = (number / window.lines * window.height + first) * line.pixels * line.depth,
                  to = number * line.windows * line.depth;
    cpu::max_pool_line(line, x + from, end - first, first - top, y + to, taps + to);
  });
}

/// Of each line of the map, from the lines of windows that see it.
template <class T>
void pool_lines_back(const device::PoolWindow& window, const T* gradient, const uint8_t* taps, int64_t pictures,
                     T* result) {
  const cpu::PoolLine line = pool_line(window);
  parallel_for(pictures * window.height, [&](int64_t number) {
    const int64_t down = number % window.height + window.above,
                  first = down < window.kernel ? 0 : (down - window.kernel) / window.stride + 1,
                  end = std::min<int64_t>(down / window.stride + 1, window.lines),
                  from = (number / window.height * window.lines + first) * line.windows * line.depth;
    cpu::max_pool_line_back(line, gradient + from, taps + from, end - first, down - first * window.stride,
                            result + number * line.pixels * line.depth);
  });
}

TwoTensors pool_operator(const at::Tensor& x, int64_t kernel, int64_t stride, at::IntArrayRef padding) {
  TORCH_CHECK(x.dim() == 4 && is_element(x.scalar_type()),
              "expected a map [B, C, H, W] of float32 or half the bits, got ", x.toString(), " ", x.sizes());
  const device::PoolWindow window = pool_window(x.size(1), x.sizes().slice(2), kernel, stride, padding);
  at::Tensor y = empty_map({x.size(0), x.size(1), window.lines, window.pixels}, x);
  at::Tensor taps = empty_map(y.sizes(), at::empty({0}, x.options().dtype(at::kByte)));
  if (x.is_meta()) return {y, taps};
  const at::Tensor map = channels_last(x);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const in = device::data<const T>(map);
    T* const out = device::data<T>(y);
    auto* const chosen = taps.mutable_data_ptr<uint8_t>();
    if (device::takes_loops(x)) return pool_lines<T>(window, in, x.size(0), out, chosen);
    with_width<T>(map, {in, out}, [&](auto width) {
      const auto run = [&](auto pool) { device::for_each(x, y.numel() / width, pool); };
      const int64_t vectors = window.depth / width;
      if (window.kernel == 3)
        run(device::MaxPool<T, width, 3>{window, window.lines, window.pixels, vectors, in, out, chosen});
      else
        run(device::MaxPool<T, width, 0>{window, window.lines, window.pixels, vectors, in, out, chosen});
    });
  });
  return {y, taps};
}

at::Tensor pool_backward_operator(const at::Tensor& gradient, const at::Tensor& taps, at::IntArrayRef size,
                                  int64_t kernel, int64_t stride, at::IntArrayRef padding) {
  TORCH_CHECK(gradient.dim() == 4 && is_element(gradient.scalar_type()) && taps.scalar_type() == at::kByte &&
                  taps.sizes() == gradient.sizes(),
              "expected a gradient [B, C, lines, pixels] of float32 or half the bits and uint8 taps of its size, got ",
              gradient.toString(), " ", gradient.sizes(), " and ", taps.toString(), " ", taps.sizes());
  const device::PoolWindow window = pool_window(gradient.size(1), size, kernel, stride, padding);
  TORCH_CHECK(gradient.size(2) == window.lines && gradient.size(3) == window.pixels, "a window over ", size, " gives ",
              window.lines, " x ", window.pixels, " places, the gradient has ", gradient.sizes());
  at::Tensor result = empty_map({gradient.size(0), gradient.size(1), size[0], size[1]}, gradient);
  if (gradient.is_meta()) return result;
  const at::Tensor given = channels_last(gradient), map = channels_last(taps);
  const at::Tensor chosen = device::begins_at_multiple(map.const_data_ptr(), 8) ? map : map.clone();  // read by eights
  with_elements(gradient.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const in = device::data<const T>(given);
    T* const out = device::data<T>(result);
    const auto* const of_windows = chosen.const_data_ptr<uint8_t>();
    if (device::takes_loops(gradient)) return pool_lines_back<T>(window, in, of_windows, gradient.size(0), out);
    with_width<T>(given, {in, out}, [&](auto width) {
      const int64_t vectors = window.depth / width;
      if (window.kernel == 3 && window.stride == 2) {
        using Gradient = device::MaxPoolGradientByTwo<T, width>;
        const int64_t rows = Gradient::squares(window.height, window.above),
                      columns = Gradient::squares(window.width, window.left);
        device::for_each(gradient, gradient.size(0) * rows * columns * vectors,
                         Gradient{window, rows, columns, vectors, in, of_windows, out});
      } else {
        device::for_each(
            gradient, result.numel() / width,
            device::MaxPoolGradient<T, width>{window, window.height, window.width, vectors, in, of_windows, out});
      }
    });
  });
  return result;
}

TwoTensors call(const at::Tensor& x, int64_t kernel, int64_t stride, at::IntArrayRef padding) {
  static const auto operation = find_operator("max_pool", &pool_operator);
  return operation.call(x, kernel, stride, padding);
}

class MaxPoolNode : public torch::autograd::Function<MaxPoolNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, int64_t kernel, int64_t stride,
                               at::IntArrayRef padding) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, taps] = call(x, kernel, stride, padding);
    context->save_for_backward({taps});
    context->mark_non_differentiable({taps});
    context->saved_data["size"] = x.sizes().slice(2).vec();
    context->saved_data["kernel"] = kernel;
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding.vec();
    return {y, taps};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("max_pool");
    static const auto operation = find_operator("max_pool_backward", &pool_backward_operator);
    const auto& kept = context->saved_data;
    return {operation.call(gradients[0], context->get_saved_variables()[0], kept.at("size").toIntVector(),
                           kept.at("kernel").toInt(), kept.at("stride").toInt(), kept.at("padding").toIntVector()),
            {},
            {},
            {}};
  }
};

TwoTensors differentiable_pool(const at::Tensor& x, int64_t kernel, int64_t stride, at::IntArrayRef padding) {
  const variable_list results = MaxPoolNode::apply(x, kernel, stride, padding);
  return {results[0], results[1]};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "max_pool(Tensor x, int kernel, int stride, int[] padding) -> (Tensor, Tensor)", &pool_operator,
         &differentiable_pool);
  define(library,
         "max_pool_backward(Tensor gradient, Tensor taps, int[] size, int kernel, int stride, int[] padding) -> Tensor",
         &pool_backward_operator);
}

}  // namespace

at::Tensor max_pool(const at::Tensor& x, int64_t kernel, const SlidingWindow& window) {
  return std::get<0>(call(x, kernel, window.stride, window.padding));
}

bool takes_max_pool(const at::Tensor& x, int64_t kernel) {
  return has_kernels(x) && x.dim() == 4 && is_element(x.scalar_type()) && kernel <= kMostPoolKernel;
}

}  // namespace osprey::kernels
